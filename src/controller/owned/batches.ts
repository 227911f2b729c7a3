/** All of them side by side. Gives the first error; the others are most likely equal. */
export async function together<T>(items: readonly T[], act: (item: T) => Promise<void>): Promise<unknown> {
  const ends = await Promise.allSettled(items.map(act));
  return ends.find((end) => end.status === 'rejected')?.reason;
}

/**
 * Batches of 1, 2, 4 and so on, and none after one with an error: where a quota is used up a thousand wanted objects cost one refused request,
 * not a thousand. Gives the first error.
 */
export async function inBatches<T>(items: readonly T[], act: (item: T) => Promise<void>): Promise<unknown> {
  for (let begin = 0, size = 1; begin < items.length; begin += size, size *= 2) {
    const error = await together(items.slice(begin, begin + size), act);
    if (error !== undefined) return error;
  }
  return undefined;
}
