import { lastBytes, openPlainFile } from '../../host/index.ts';

export interface PanicInfo {
  readonly Type: string;
  readonly [argument: string]: unknown;
}

/** How much of the end of QEMU's log is looked at. */
const tailBytes = 64 * 1024;

/** The last panic that libvirt wrote into QEMU's log; type `unknown` when there is none to read. */
export async function readPanicInfo(logFile: string): Promise<PanicInfo> {
  const text = await readTail(logFile).catch(() => '');
  const line = text.split('\n').findLast((each) => /panic [a-z0-9-]+: /.test(each));
  const match = /panic ([a-z0-9-]+): (.*)/.exec(line ?? '');
  if (!match) return { Type: 'unknown' };
  const values = [...(match[2] ?? '').matchAll(/arg([1-5])='0x([0-9a-f]{1,16})'/g)];
  // Arguments above 2^53 lose their last digits: JSON numbers of this runtime are doubles.
  const args = Object.fromEntries(values.map(([, index, hex]) => [`Arg${index}`, Number(BigInt(`0x${hex}`))]));
  return { Type: match[1] ?? 'unknown', Arg1: 0, Arg2: 0, Arg3: 0, Arg4: 0, Arg5: 0, ...args };
}

/** Upstream's text of the event. */
export function panicMessage(info: PanicInfo): string {
  if (info.Type === 'unknown') return 'GuestPanicked (details unavailable)';
  if (info.Type !== 'hyper-v') return `GuestPanicked: type=${info.Type}`;
  const args = [info.Arg1, info.Arg2, info.Arg3, info.Arg4, info.Arg5];
  return `GuestPanicked: ${args.map((arg) => `'0x${Number(arg ?? 0).toString(16)}'`).join(', ')}`;
}

async function readTail(file: string): Promise<string> {
  const handle = await openPlainFile(file);
  return lastBytes(handle, tailBytes)
    .then(({ bytes }) => bytes.toString('utf8'))
    .finally(() => handle.close());
}
