import { errorMessage, type Logger } from '../../../../base/index.ts';
import { containerLabeller, hasSelinux, openTrusted, readPlainFile } from '../../../../host/index.ts';
import { HostError } from '../errors.ts';

export interface TapLabelOptions {
  /** The machine's root directory as this process sees it. */
  readonly hostRoot: string;
  readonly procDir?: string;
  /** What a program that makes a tap device opens; this agent's own. */
  readonly devices?: readonly string[];
}

/** SELinux' label of a launcher; undefined where the kernel runs without SELinux. Rejects with HostError. */
export type TapLabelOf = (launcherPid: number) => Promise<string | undefined>;

const ownDevices = ['/dev/net/tun', '/dev/null'];
const maxBytes = 4096;
/** An ASCII text like `system_u:system_r:container_t:s0:c1,c2`. */
const label = /^[\x21-\x7e]{1,1024}$/;

/**
 * A tap device has the label of the program that made it, and SELinux lets a launcher attach to devices of its own label only: the program is run
 * under it (`ContextExecutor` in pkg/virt-handler/selinux), and may use the devices that it needs for that.
 */
export function tapLabels(
  { hostRoot, procDir = '/proc', devices = ownDevices }: TapLabelOptions,
  log: Logger,
): TapLabelOf {
  // It comes or goes with a boot of the machine only.
  const isThere = hasSelinux(hostRoot);
  let prepared: Promise<void> | undefined;
  return async (pid) => {
    if (!isThere) return undefined;
    try {
      prepared ??= giveToContainers(devices, hostRoot, log);
      await prepared;
      return checked(await readPlainFile(`${procDir}/${pid}/attr/current`, maxBytes));
    } catch (cause) {
      prepared = undefined;
      const problem = `tap devices of the pod cannot have its SELinux label: ${errorMessage(cause)}`;
      throw new HostError('POD_NETWORK', problem, { cause });
    }
  };
}

async function giveToContainers(devices: readonly string[], hostRoot: string, log: Logger): Promise<void> {
  const give = await containerLabeller(hostRoot, log);
  for (const device of devices) {
    const opened = openTrusted(device);
    try {
      give(opened);
    } finally {
      opened.close();
    }
  }
}

/** The kernel ends it with a NUL byte, a line end, or nothing. */
function checked(text: string): string {
  const [found = ''] = text.split(/[\0\n]/, 1);
  if (label.test(found)) return found;
  throw new Error('the launcher has none');
}

export interface CommandBatch {
  readonly lines: readonly string[];
  /** Under the launcher's label, each a program of its own without input: it may not read the agent's pipes. */
  readonly isLabelled: boolean;
}

/** In their order; one batch where there is no SELinux. */
export function batchesOf(commands: readonly string[], hasLabel: boolean): readonly CommandBatch[] {
  if (!hasLabel) return [{ lines: commands, isLabelled: false }];
  const batches: { lines: string[]; isLabelled: boolean }[] = [];
  for (const line of commands) {
    const isLabelled = line.startsWith('tuntap add ');
    const last = batches.at(-1);
    if (last && !isLabelled && !last.isLabelled) last.lines.push(line);
    else batches.push({ lines: [line], isLabelled });
  }
  return batches;
}
