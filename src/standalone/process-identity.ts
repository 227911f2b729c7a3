import { readFile } from 'node:fs/promises';
import { hasEnded, readProcessStat } from '../host/index.ts';

/** A process that cannot be mistaken for a later one with the same pid: start time in clock ticks since that boot. */
export interface ProcessIdentity {
  readonly pid: number;
  readonly startTicks: string;
  readonly bootId: string;
}

/** The boot of the machine that this process runs on. */
export async function currentBootId(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
}

/** Identity of a living process; undefined when there is none with that pid. */
export async function identifyProcess(pid: number): Promise<ProcessIdentity | undefined> {
  const [stat, bootId] = await Promise.all([readProcessStat(pid), currentBootId()]);
  return stat ? { pid, startTicks: stat.startTicks, bootId } : undefined;
}

/** True while exactly this process lives. A zombie is dead. */
export async function isAlive(identity: ProcessIdentity): Promise<boolean> {
  const [stat, bootId] = await Promise.all([readProcessStat(identity.pid), currentBootId()]);
  if (!stat || hasEnded(stat)) return false;
  return stat.startTicks === identity.startTicks && bootId === identity.bootId;
}

/** Sends a signal to exactly this process. False when it is gone. */
export async function signalProcess(identity: ProcessIdentity, signal: NodeJS.Signals): Promise<boolean> {
  if (!(await isAlive(identity))) return false;
  try {
    process.kill(identity.pid, signal);
    return true;
  } catch {
    return false;
  }
}

/** `<pid> <start ticks> <boot id>`, as the sandbox scripts write it. */
export function formatIdentity(identity: ProcessIdentity): string {
  return `${identity.pid} ${identity.startTicks} ${identity.bootId}\n`;
}

/** The reverse; undefined for a torn or foreign text. */
export function parseIdentity(text: string): ProcessIdentity | undefined {
  const match = /^([1-9]\d{0,9}) (\d{1,20}) ([0-9a-f-]{36})\s*$/.exec(text);
  const [, pid, startTicks, bootId] = match ?? [];
  return pid && startTicks && bootId ? { pid: Number(pid), startTicks, bootId } : undefined;
}
