export const animals = () => ({});
