import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach } from 'node:test';
import type { LauncherTarget, VmiEvent } from '../../../src/api/index.ts';
import type { Logger } from '../../../src/base/index.ts';
import { DomainCache, type DomainCacheError, type DomainCacheOptions } from '../../../src/domain-cache/index.ts';
import { LauncherClients, type LauncherClientsOptions } from '../../../src/launcher-client/index.ts';
import { ScriptedLauncher, ScriptedNotifier, scriptedDomain, socketFileOf } from '../../fixtures/scripted-launcher.ts';

export interface Problem {
  readonly uid: string;
  readonly code: DomainCacheError['code'] | undefined;
}

/** One run of an agent's cache and clients on the directories of a node. */
export interface AgentRun {
  readonly cache: DomainCache;
  readonly clients: LauncherClients;
  readonly events: { readonly key: string; readonly uid: string; readonly event: VmiEvent }[];
  readonly problems: Problem[];
  /** Keys that listeners were told, in order. */
  readonly changes: string[];
  stop(): Promise<void>;
}

/** A node of temporary directories: pods, share and private directory, launchers with their roots. */
export class TestNode {
  readonly root = mkdtempSync(path.join(tmpdir(), 'node-'));
  readonly podsDir = path.join(this.root, 'pods');
  readonly shareDir = path.join(this.root, 'share');
  privateDir = path.join(this.root, 'private');
  readonly #cleanups: (() => unknown)[] = [];

  constructor() {
    mkdirSync(this.podsDir);
  }

  async run(
    options: { [K in keyof DomainCacheOptions]?: DomainCacheOptions[K] | undefined } = {},
    clientOptions: Partial<LauncherClientsOptions> = {},
    logger?: Logger,
  ): Promise<AgentRun> {
    const events: AgentRun['events'] = [];
    const problems: Problem[] = [];
    const changes: string[] = [];
    const clients = new LauncherClients({ podsDir: this.podsDir, nodeName: '', ...clientOptions });
    const cache = new DomainCache(
      {
        shareDir: this.shareDir,
        privateDir: this.privateDir,
        recheckMs: 20,
        pipePath: ({ address }) => ({ root: this.rootOf(address.uid), directory: 'var/run/kubevirt' }),
        ...options,
      } as DomainCacheOptions,
      {
        launchers: clients,
        onLauncherEvent: (key, uid, event) => events.push({ key, uid, event }),
        onProblem: (_key, uid, problem) => problems.push({ uid, code: problem?.code }),
        ...(logger && { logger }),
      },
    );
    cache.onChange((key) => changes.push(key));
    await cache.start();
    let stopped = false;
    const stop = async () => {
      if (stopped) return;
      stopped = true;
      await cache.stop();
      clients.stop();
    };
    this.#cleanups.push(stop);
    return { cache, clients, events, problems, changes, stop };
  }

  /** The launcher's root directory, with `/var/run` a link to `/run` as in a pod. */
  rootOf(uid: string): string {
    const root = path.join(this.root, 'roots', uid);
    mkdirSync(path.join(root, 'var/run/kubevirt'), { recursive: true });
    return root;
  }

  pipeOf(uid: string): string {
    return path.join(this.rootOf(uid), 'var/run/kubevirt/domain-notify-pipe.sock');
  }

  socketOf(uid: string): string {
    return socketFileOf(this.podsDir, `pod-${uid}`);
  }

  targetOf(key: string, uid: string): LauncherTarget {
    return { key, uid, activePods: { [`pod-${uid}`]: 'node1' } };
  }

  /** A launcher in this process, with a running domain unless told otherwise. */
  async launcher(key: string, uid: string, domain: ScriptedLauncher['domain'] = scriptedDomain(key, uid)) {
    const launcher = await ScriptedLauncher.start({ socketFile: this.socketOf(uid) });
    launcher.domain = domain;
    this.#cleanups.push(() => launcher.stop());
    return launcher;
  }

  notifier(uid: string, pipe = this.pipeOf(uid)): ScriptedNotifier {
    const notifier = new ScriptedNotifier(pipe);
    this.#cleanups.push(() => notifier.close());
    return notifier;
  }

  /** Something to do at the end, before the directories go. */
  cleanup(work: () => unknown): void {
    this.#cleanups.push(work);
  }

  async dispose(): Promise<void> {
    for (const cleanup of this.#cleanups.reverse()) await cleanup();
    rmSync(this.root, { recursive: true, force: true });
  }
}

export function statusOf(cache: DomainCache, key: string, uid?: string): string {
  const view = cache.view(key, uid);
  assert.equal(view.kind, 'present', JSON.stringify({ ...view, domain: undefined }));
  return view.kind === 'present' ? view.domain.Status.Status : '';
}

export const key = 'default/vm1';
export const uid = 'uid-1';

/** The node of the test that runs. */
export let node: TestNode;

/** Each test of the file gets a node of its own. */
export function useTestNodes(): void {
  beforeEach(() => {
    node = new TestNode();
  });
  afterEach(() => node.dispose());
}
