/** Rejects with the signal's reason when that fires first; what `work` comes to is then nobody's business any more. */
export async function orEnded<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  let stop = () => {};
  const ended = new Promise<never>((_, reject) => {
    const onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    stop = () => signal.removeEventListener('abort', onAbort);
  });
  try {
    return await Promise.race([work, ended]);
  } finally {
    stop();
  }
}
