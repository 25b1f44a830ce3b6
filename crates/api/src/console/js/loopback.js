// The address of the console.

/** Returns true if only this computer can open the address of the console. */
export const isLoopback = (host = location.hostname) => /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/.test(host);
