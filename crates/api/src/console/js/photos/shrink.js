// Smaller pictures of files, made by the browser.

/**
 * A picture as a JPEG without transparency, turned upright, whose longer side has at most this length; null if the
 * browser cannot read it.
 * @param {Blob} file
 */
export async function shrink(file, side = 0, quality = 0.8) {
  const bitmap = await createImageBitmap(file).catch(() => null);
  if (!bitmap) return null;
  const scale = Math.min(1, side / Math.max(bitmap.width, bitmap.height));
  const canvas = new OffscreenCanvas(Math.max(1, Math.round(bitmap.width * scale)), Math.max(1, Math.round(bitmap.height * scale)));
  const drawing = /** @type {OffscreenCanvasRenderingContext2D} */ (canvas.getContext("2d"));
  drawing.fillStyle = "#fff";
  drawing.fillRect(0, 0, canvas.width, canvas.height);
  drawing.imageSmoothingQuality = "high";
  drawing.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  return canvas.convertToBlob({ type: "image/jpeg", quality });
}
