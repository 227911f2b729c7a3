import type { Logger } from '../../base/index.ts';
import { isProcessAlive, type ProcessId, type RecordFiles, recordDirectory } from '../../host/index.ts';
import { ControlConnection } from './control-connection.ts';
import { MigrationProxyError } from './errors.ts';
import { configurationOf, type ProxyPlan } from './haproxy-config.ts';
import { endProcess, startHaproxy } from './haproxy-process.ts';
import { removePodSockets, streamSocketName } from './pod-sockets.ts';
import { maxRecordBytes, type ProxyDuty, proxyId, readRecord, recordSuffix, rolesOf } from './proxy-record.ts';

/** What a process is given at its start. */
export interface ProcessStart {
  readonly program: string;
  readonly plan: ProxyPlan;
  /** PEM. */
  readonly keyPair: string;
  readonly authorities: string;
  /** Descriptors of sockets that listen. */
  readonly listeners: readonly number[];
}

/** A process that serves. */
export interface ServingProcess {
  readonly duty: ProxyDuty;
  readonly control: ControlConnection;
}

/** The processes of this node's migration proxies and their records: started, found again by the next agent, and ended without a trace. */
export class ProxyProcesses {
  readonly #directory: string;
  readonly #records: RecordFiles;
  readonly #log: Logger;

  constructor(directory: string, deps: { readonly log: Logger }) {
    this.#directory = directory;
    this.#records = recordDirectory(directory);
    this.#log = deps.log;
  }

  /** Rejects with MigrationProxyError START_FAILED or LAUNCHER_GONE, or with the signal's reason; nothing is left then. */
  async start(duty: ProxyDuty, { plan, ...given }: ProcessStart, signal: AbortSignal): Promise<ControlConnection> {
    let recorded: Promise<void> | undefined;
    let spawned: ProcessId | undefined;
    const onSpawned = (process: ProcessId) => {
      spawned = process;
      // Written before this returns: an agent that is killed now leaves nothing that the next one does not know.
      recorded = this.#records.replace(recordName(duty), JSON.stringify({ version: 1, duty, process }));
      recorded.catch(() => undefined);
    };
    const { controlName: name } = plan;
    const start = { directory: this.#directory, controlName: name, configuration: configurationOf(plan), ...given };
    try {
      const control = await startHaproxy({ ...start, onSpawned }, signal);
      await recorded;
      // The root directory that it took was the launcher's, and not that of a process with its number.
      if (!isProcessAlive(duty.launcher)) throw gone(duty.launcher.pid);
      return control;
    } catch (error) {
      await this.discard(duty, spawned);
      throw error;
    }
  }

  /** Nothing is left of it: neither process, nor record, nor sockets. `drainMs`: its streams have so long to end by themselves. */
  async discard(duty: ProxyDuty, process: ProcessId | undefined, { drainMs = 0 } = {}): Promise<void> {
    if (process) await endProcess(process, { drainMs });
    if (duty.side === 'source' && isProcessAlive(duty.launcher)) removePodSockets(duty.launcher.pid, socketNames(duty));
    await this.#records.remove(controlName(duty)).catch(() => undefined);
    await this.#records.remove(recordName(duty)).catch(() => undefined);
  }

  /** What a former agent left and what still serves; all else of it is ended. Rejects when the directory cannot be read. */
  async takeUp(): Promise<ServingProcess[]> {
    const files = await this.#records.list();
    const serving: ServingProcess[] = [];
    for (const file of files.filter((name) => name.endsWith(recordSuffix))) {
      const adopted = await this.#adopt(file);
      if (adopted) serving.push(adopted);
    }
    const known = new Set(serving.map(({ duty }) => controlName(duty)));
    const controls = files.filter((name) => name.endsWith(controlSuffix) && !known.has(name));
    for (const file of controls) await this.#endUnrecorded(file);
    return serving;
  }

  async #adopt(file: string): Promise<ServingProcess | undefined> {
    const text = await this.#records.read(file, maxRecordBytes).catch(() => '');
    const record = readRecord(text);
    if (!record || recordName(record.duty) !== file) {
      this.#log.warn({ file }, 'a record of a migration proxy cannot be read; it is removed');
      await this.#records.remove(file).catch(() => undefined);
      return undefined;
    }
    const { duty, process } = record;
    const isOurs = isProcessAlive(process) && isProcessAlive(duty.launcher);
    const control = isOurs
      ? await ControlConnection.open(this.#directory, controlName(duty)).catch(() => undefined)
      : undefined;
    if (control && control.process.pid === process.pid && control.process.startTime === process.startTime) {
      return { duty, control };
    }
    control?.close();
    this.#log.info(
      { vmi: duty.key, uid: duty.uid, side: duty.side },
      'a migration proxy of a former agent is not there any more',
    );
    await this.discard(duty, process);
    return undefined;
  }

  /** Its record is torn, or its agent was killed before it could write one: nobody would ever end it. */
  async #endUnrecorded(file: string): Promise<void> {
    const process = await ControlConnection.processBehind(this.#directory, file).catch(() => undefined);
    if (process) {
      this.#log.warn({ file, pid: process.pid }, 'a migration proxy has no usable record; it is ended');
      await endProcess(process);
    }
    await this.#records.remove(file).catch(() => undefined);
  }
}

const controlSuffix = '.sock';
export const controlName = ({ side, uid }: ProxyDuty) => `${proxyId(side, uid)}${controlSuffix}`;
const recordName = ({ side, uid }: ProxyDuty) => `${proxyId(side, uid)}${recordSuffix}`;
export const socketNames = (duty: ProxyDuty) => rolesOf(duty).map((role) => streamSocketName(duty.uid, role));

export function gone(pid: number): MigrationProxyError {
  return new MigrationProxyError('LAUNCHER_GONE', `the launcher (process ${pid}) has ended`);
}
