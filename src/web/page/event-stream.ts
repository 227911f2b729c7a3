/**
 * Reads server-sent events until the stream ends. Not the browser's EventSource, which can be given no header, so that a secret
 * would have to stand in its address. `onBytes`: something came, be it a comment.
 */
export async function readEvents(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  on: { readonly event: (name: string, data: string) => void; readonly bytes: () => void },
): Promise<void> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    on.bytes();
    const parts = (text + value).split('\n\n');
    text = parts.pop() ?? '';
    for (const part of parts) {
      const name = /^event: (.*)$/m.exec(part)?.[1];
      const data = /^data: (.*)$/m.exec(part)?.[1];
      if (name !== undefined && data !== undefined) on.event(name, data);
    }
  }
}
