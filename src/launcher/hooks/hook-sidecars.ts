import { lstat, readdir } from 'node:fs/promises';
import path from 'node:path';
import type { VirtualMachineInstance } from '../../api/index.ts';
import { type Clock, errorCode, errorMessage, type Logger, sleep } from '../../base/index.ts';
import type { CloudInitData } from '../disks/index.ts';
import { LauncherError } from '../errors.ts';
import { cloudInitMessage, readCloudInitData } from './cloud-init-data.ts';
import { type HookPoint, onDefineDomain, preCloudInitIso, readSidecar, type Sidecar, shutdown } from './sidecar.ts';

export interface HookSidecarsOptions {
  /** Each sidecar has a directory of its own in it, with its socket. */
  readonly directory: string;
  /** `--hook-sidecars`: as many sockets are waited for. */
  readonly count: number;
  readonly timeoutMs: number;
}

export interface HookSidecarsDeps {
  readonly clock: Clock;
  readonly log: Logger;
}

const lookAgainMs = 300;
const annotation = 'hooks.kubevirt.io/hookSidecars';

/**
 * Containers beside this one that change what the launcher makes (upstream: pkg/hooks). Those with the highest priority come first, then by name; upstream
 * means that, too, and calls them as their sockets were found.
 */
export class HookSidecars {
  readonly #options: HookSidecarsOptions;
  readonly #deps: HookSidecarsDeps;
  #sidecars: readonly Sidecar[] = [];

  constructor(options: HookSidecarsOptions, deps: HookSidecarsDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** Until all are there. Rejects with LauncherError HOOK_FAILED, NOT_SUPPORTED. */
  async collect(signal?: AbortSignal): Promise<void> {
    const { count, timeoutMs, directory } = this.#options;
    const { clock, log } = this.#deps;
    const found = new Map<string, Sidecar>();
    const endMs = clock.monotonicMs() + timeoutMs;
    while (found.size < count) {
      for (const socket of await socketsIn(directory)) {
        if (found.has(socket) || found.size === count) continue;
        const sidecar = await readSidecar(socket);
        if (sidecar) found.set(socket, sidecar);
      }
      if (found.size === count) break;
      if (clock.monotonicMs() > endMs) throw late(count, found);
      await sleep(lookAgainMs, signal, clock);
    }
    this.#sidecars = [...found.values()];
    if (count > 0) log.info({ sidecars: this.#sidecars.map(({ name }) => name) }, 'hook sidecars found');
  }

  /** The document as the sidecars want it, each given what the one before made of it. Rejects with LauncherError HOOK_FAILED, NOT_SUPPORTED. */
  async domain(xml: string, vmi: VirtualMachineInstance): Promise<string> {
    this.#refuseWithout(vmi);
    let made = xml;
    for (const sidecar of this.#at('OnDefineDomain')) {
      const given = { domainXML: Buffer.from(made), vmi: Buffer.from(JSON.stringify(vmi)) };
      const { domainXML } = await onDefineDomain(sidecar, given);
      made = Buffer.from(domainXML).toString('utf8');
      if (made.trim() === '') throw useless(sidecar, 'gave back no domain');
      this.#deps.log.info({ sidecar: sidecar.name }, 'domain changed by a hook sidecar');
    }
    return made;
  }

  /** Whether a sidecar is asked at all: data that are no text stay whole otherwise. */
  get changesCloudInit(): boolean {
    return this.#at('PreCloudInitIso').length > 0;
  }

  /** As the first sidecar wants it that has this hook, like upstream. Rejects with LauncherError HOOK_FAILED. */
  async cloudInit(data: CloudInitData, vmi: VirtualMachineInstance): Promise<CloudInitData> {
    const [sidecar] = this.#at('PreCloudInitIso');
    if (!sidecar) return data;
    const answer = await preCloudInitIso(sidecar, {
      ...cloudInitMessage(data),
      vmi: Buffer.from(JSON.stringify(vmi)),
    });
    const changed = readCloudInitData(answer, data);
    if (changed) return changed;
    throw useless(sidecar, 'gave back no cloud-init data');
  }

  /** The guest has ended. What a sidecar says is logged: nothing but the launcher's own end waits for it, until `signal`. */
  async shutdown(signal: AbortSignal): Promise<void> {
    for (const sidecar of this.#at('Shutdown')) {
      await shutdown(sidecar, signal).catch((error: unknown) => {
        this.#deps.log.warn({ sidecar: sidecar.name, err: errorMessage(error) }, 'hook sidecar did not end in order');
      });
    }
  }

  #at(point: HookPoint): readonly Sidecar[] {
    const priority = ({ points }: Sidecar) => points.get(point) ?? 0;
    return this.#sidecars
      .filter(({ points }) => points.has(point))
      .sort((a, b) => priority(b) - priority(a) || compare(a.name, b.name) || compare(a.socket, b.socket));
  }

  /** A pod that was made without them would start a guest that is not what its VMI says. */
  #refuseWithout({ metadata }: VirtualMachineInstance): void {
    if (this.#options.count > 0 || !metadata.annotations?.[annotation]) return;
    const problem = `annotation ${annotation} is not supported here: this launcher's pod has no sidecars`;
    throw new LauncherError('NOT_SUPPORTED', `${problem}: remove it, or run the VMI in a cluster`);
  }
}

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

function useless({ name }: Sidecar, problem: string): LauncherError {
  return new LauncherError('HOOK_FAILED', `hook sidecar ${name} ${problem}: look into the log of its container`);
}

function late(count: number, found: ReadonlyMap<string, Sidecar>): LauncherError {
  const names = [...found.values()].map(({ name }) => name).join(', ') || 'none';
  const problem = `of ${count} hook sidecars ${found.size} answered in time (${names})`;
  return new LauncherError('HOOK_FAILED', `${problem}: look at the containers hook-sidecar-0 and so on of the pod`);
}

/** Sorted, so that the same pod gives the same order. */
async function socketsIn(directory: string): Promise<string[]> {
  const sockets: string[] = [];
  for (const name of (await namesIn(directory)).sort()) {
    for (const file of (await namesIn(path.join(directory, name))).sort()) {
      const socket = path.join(directory, name, file);
      const stat = await lstat(socket).catch(() => undefined);
      if (stat?.isSocket()) sockets.push(socket);
    }
  }
  return sockets;
}

async function namesIn(directory: string): Promise<string[]> {
  return readdir(directory).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return [];
    throw error;
  });
}
