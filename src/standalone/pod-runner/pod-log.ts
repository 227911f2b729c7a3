import { lastBytes, openPlainFile } from '../../host/index.ts';

const tailBytes = 2048;
const tailLines = 20;

/** The last lines of a log: what kubelet gives as the message of a container that failed. */
export async function logTail(file: string): Promise<string> {
  const handle = await openPlainFile(file).catch(() => undefined);
  if (!handle) return '';
  const { bytes } = await lastBytes(handle, tailBytes).finally(() => handle.close());
  return bytes.toString('utf8').trimEnd().split('\n').slice(-tailLines).join('\n');
}
