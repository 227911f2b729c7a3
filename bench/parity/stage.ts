import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { finalizers, labels, resources, type VirtualMachineInstance } from '../../src/api/index.ts';
import { sleep } from '../../src/base/index.ts';
import type { KubeClient } from '../../src/kube/index.ts';
import { vmiOf } from '../vmis.ts';
import { waitFor } from '../waiting.ts';
import { PlayedLauncher } from './played-launcher.ts';
import type { Json } from './started-domain.ts';
import { type Look, lookAt } from './view.ts';

const type = resources.virtualMachineInstances;
/** Nothing changed for so long: the agent is done. Longer than the second after which agents look again. */
const quietMs = 3_000;
const pollMs = 250;

export interface StageOptions {
  readonly scenario: string;
  readonly namespace: string;
  readonly nodeName: string;
  readonly podsDir: string;
  readonly privateDir: string;
  readonly workDir: string;
}

export interface StageDeps {
  readonly admin: KubeClient;
  /** Resolves when the agent was stopped and started again; `whileDown` happens in between. */
  restartAgent(whileDown: () => Promise<void>): Promise<void>;
}

/** What a scenario can do to its one VMI and its launcher. */
export class Stage {
  readonly looks: Look[] = [];
  readonly #options: StageOptions;
  readonly #deps: StageDeps;
  #launcher: PlayedLauncher | undefined;
  #launchers = 0;
  readonly #uids: string[] = [];

  constructor(options: StageOptions, deps: StageDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  get launcher(): PlayedLauncher {
    if (!this.#launcher) throw new Error('the scenario has no launcher yet');
    return this.#launcher;
  }

  get #ref() {
    return { namespace: this.#options.namespace, name: this.#options.scenario };
  }

  /** As virt-controller leaves it before the hand-over; `change` makes it the scenario's. */
  async create(change: (vmi: Json) => void = () => undefined): Promise<void> {
    const vmi = plainVmi(this.#options.namespace, this.#options.scenario);
    change(vmi);
    const created = await this.#deps.admin.create<VirtualMachineInstance>(type, vmi);
    this.#uids.push(created.metadata.uid ?? '');
  }

  async startLauncher(prepare: (launcher: PlayedLauncher) => void = () => undefined): Promise<void> {
    const { scenario, namespace, podsDir, workDir } = this.#options;
    const podUid = `${scenario}-${++this.#launchers}`;
    const { spec } = await this.vmi();
    const pvcs = (spec.volumes ?? [])
      .filter((volume) => volume.persistentVolumeClaim || volume.hostDisk)
      .map(({ name }) => name);
    this.#launcher = await PlayedLauncher.start({
      podUid,
      podsDir,
      workDir,
      pvcs,
      files: isoImages(namespace, scenario),
    });
    prepare(this.#launcher);
  }

  /** The hand-over: label and phase in one write. */
  async schedule(more: Json = {}): Promise<void> {
    const { nodeName, scenario } = this.#options;
    const podUid = this.#launcher?.podUid ?? `${scenario}-${++this.#launchers}`;
    const status = { phase: 'Scheduled', nodeName, activePods: { [podUid]: nodeName }, ...more };
    await this.patch({ metadata: { labels: { [labels.nodeName]: nodeName } }, status });
  }

  /** The usual beginning; ends when the agent has nothing more to do. */
  async run(change?: (vmi: Json) => void, prepare?: (launcher: PlayedLauncher) => void): Promise<void> {
    await this.create(change);
    await this.startLauncher(prepare);
    await this.schedule();
    await this.look('started', (vmi) => ['Running', 'Failed'].includes(vmi.status.phase));
  }

  async vmi(): Promise<VirtualMachineInstance> {
    return this.#deps.admin.get(type, this.#ref);
  }

  async patch(body: Json): Promise<void> {
    await this.#deps.admin.patch(type, this.#ref, body, 'merge');
  }

  async delete(graceSeconds?: number): Promise<void> {
    await this.#deps.admin.delete(type, this.#ref, graceSeconds === undefined ? {} : { graceSeconds });
  }

  /** virt-controller's last word: nothing holds the object any more. */
  async letGo(): Promise<void> {
    await this.patch({ metadata: { finalizers: null } });
  }

  async restartAgent(whileDown: () => Promise<void> = async () => undefined): Promise<void> {
    await this.#deps.restartAgent(whileDown);
  }

  /** Waits until `done` (at most `limitMs`) and until all is quiet; then all that can be seen from outside is kept. */
  async look(at: string, done: (vmi: Json) => boolean = () => true, limitMs = 25_000): Promise<void> {
    await waitFor(at, limitMs, async () => (await this.#is(done)) || undefined).catch(() => undefined);
    let before = '';
    let quietSince = performance.now();
    const end = performance.now() + limitMs;
    while (performance.now() < end && performance.now() - quietSince < quietMs) {
      const now = await this.#signature();
      if (now !== before) [before, quietSince] = [now, performance.now()];
      await sleep(pollMs);
    }
    const names = { ...this.#options, uids: this.#uids };
    const seen = { vmi: await this.#find(), events: await this.#events(), ghosts: this.#ghosts() };
    this.looks.push(lookAt(at, { ...seen, calls: this.#launcher?.takeCalls() ?? [] }, names));
  }

  async end(): Promise<void> {
    await this.#launcher?.remove();
    await this.letGo().catch(() => undefined);
    await this.delete().catch(() => undefined);
  }

  async #is(done: (vmi: Json) => boolean): Promise<boolean> {
    const vmi = await this.#find();
    return vmi === undefined || done(vmi);
  }

  async #find(): Promise<Json | undefined> {
    return this.vmi().catch(() => undefined);
  }

  async #events(): Promise<Json[]> {
    const { namespace, name } = this.#ref;
    const options = { namespace, fieldSelector: `involvedObject.name=${name}` };
    return (await this.#deps.admin.list(resources.events, options)).items;
  }

  #ghosts(): Json[] {
    const dir = path.join(this.#options.privateDir, 'ghost-records');
    const files = existsSync(dir) ? readdirSync(dir) : [];
    return files
      .filter((file) => this.#uids.includes(file))
      .map((file) => JSON.parse(readFileSync(path.join(dir, file), 'utf8')));
  }

  async #signature(): Promise<string> {
    const vmi = await this.#find();
    const events = await this.#events();
    const versions = events.map(({ metadata }) => metadata.resourceVersion).join();
    return `${vmi?.metadata.resourceVersion} ${versions} ${this.#launcher?.commands} ${this.#ghosts().length}`;
  }
}

/** Images that a real launcher makes of volumes, whose sizes are told. */
function isoImages(namespace: string, name: string): string[] {
  const seeds = ['noCloud', 'configdrive'].map((kind) => `cloud-init-data/${namespace}/${name}/${kind}.iso`);
  const volumes = ['config-map', 'secret'].map((kind) => `/run/kubevirt-private/${kind}-disks/settings.iso`);
  return [...seeds.map((file) => `/run/kubevirt-ephemeral-disks/${file}`), ...volumes];
}

function plainVmi(namespace: string, name: string): Json {
  return vmiOf(namespace, name, {
    metadata: { labels: { app: 'parity' }, finalizers: [finalizers.vmi] },
    cpuModel: 'Penryn',
    runtimeUser: 107,
    volumes: [{ name: 'root', containerDisk: { image: 'demo', imagePullPolicy: 'IfNotPresent' } }],
  });
}
