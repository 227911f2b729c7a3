/** Requests under way; the client has no more connections for them. */
const sideBySide = 8;

/** All of them, some side by side. Gives the first error; the others are most likely equal. */
export async function together<T>(items: readonly T[], act: (item: T) => Promise<void>): Promise<unknown> {
  const errors: unknown[] = [];
  const waiting = items.values();
  const work = async () => {
    for (const item of waiting) await act(item).catch((error: unknown) => errors.push(error));
  };
  await Promise.all(Array.from({ length: Math.min(sideBySide, items.length) }, work));
  return errors[0];
}

/**
 * Batches of 1, 2, 4, 8, 8 and so on, and none after one with an error: where a quota is used up a thousand wanted objects cost one refused
 * request, not a thousand. Gives the first error.
 */
export async function inBatches<T>(items: readonly T[], act: (item: T) => Promise<void>): Promise<unknown> {
  for (let begin = 0, size = 1; begin < items.length; begin += size, size = Math.min(sideBySide, size * 2)) {
    const error = await together(items.slice(begin, begin + size), act);
    if (error !== undefined) return error;
  }
  return undefined;
}
