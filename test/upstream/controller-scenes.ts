import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type ControllerCommand, ControllerUnderTest } from '../../bench/controller-under-test.ts';
import { installForOtherControllers } from '../../bench/foreign-crds.ts';
import { type KubeObject, type Pod, type ResourceType, resources, type VirtualMachine } from '../../src/api/index.ts';
import { type Component, errorMessage, silentLogger, sleep } from '../../src/base/index.ts';
import { KubeClient, loadKubeAccess } from '../../src/kube/index.ts';
import { nodePaths } from '../../src/standalone/index.ts';
import { NodeStorage } from '../../src/standalone/supervisor/node-storage.ts';
import { definitionOf, definitions } from '../fixtures/controller/cdi.ts';
import { PlayedNode } from '../fixtures/controller/played-node.ts';
import { type KubeApiserver, startKubeApiserver } from '../fixtures/kube-apiserver.ts';

const revisions: ResourceType = {
  ...{ group: 'apps', version: 'v1', resource: 'controllerrevisions', kind: 'ControllerRevision', namespaced: true },
};
const cdiKind = (resource: string, kind: string): ResourceType => ({
  ...{ group: 'cdi.kubevirt.io', version: 'v1beta1', resource, kind, namespaced: true },
});
/** What a controller with DataVolumes waits for. */
const importerKinds = [
  resources.dataVolumes,
  resources.dataSources,
  cdiKind('cdis', 'CDI'),
  cdiKind('cdiconfigs', 'CDIConfig'),
  cdiKind('storageprofiles', 'StorageProfile'),
];
/** What storage with snapshots brings; without a classes' kind there is no snapshot controller in a cluster. */
const snapshotKinds = [resources.volumeSnapshots, resources.volumeSnapshotContents, resources.volumeSnapshotClasses];
/** Kinds whose objects are compared. Of pods the specs are compared by themselves, in launcher-pods. */
const compared = [
  ...[resources.virtualMachines, resources.virtualMachineInstances, resources.replicaSets, resources.pools],
  ...[resources.virtualMachineSnapshots, resources.virtualMachineSnapshotContents, resources.volumeSnapshots],
  ...[resources.virtualMachineRestores, resources.virtualMachineClones, resources.persistentVolumeClaims],
  ...[resources.dataVolumes, revisions, resources.pods, resources.events],
];
const limitMs = 40_000;
/** Objects that are the same for so long are done. */
const quietMs = 2_000;
const lookMs = 250;

/** What there is in a namespace: objects without what differs by chance, by kind and name. */
type Objects = Readonly<Record<string, unknown>>;

/** What there is after a scene, or why it did not come to its end. */
export type Outcome = { readonly objects: Objects } | { readonly problem: string };

export interface Stage {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly create: (type: ResourceType, name: string, spec: object) => Promise<void>;
  readonly remove: (type: ResourceType, name: string) => Promise<void>;
  readonly patch: (type: ResourceType, name: string, body: object) => Promise<void>;
  /** Until an object of this name is so; throws after 40 s. */
  readonly until: <T extends KubeObject>(type: ResourceType, name: string, holds: (object: T) => boolean) => Promise<T>;
  readonly untilGone: (type: ResourceType, name: string) => Promise<void>;
  readonly untilCount: (type: ResourceType, count: number, holds: (object: KubeObject) => boolean) => Promise<void>;
}

export type Scene = (stage: Stage) => Promise<void>;

/** Plays all scenes to one controller side by side, on an API server of its own; each has a namespace of its own. */
export function playScenes(
  assets: string,
  advertisedAddress: string,
  program: ControllerCommand,
  scenes: Readonly<Record<string, Scene>>,
): Promise<Record<string, Outcome>> {
  return withController({ assets, advertisedAddress, program }, async ({ client, controller }) => {
    const play = async ([name, scene]: [string, Scene]) => {
      const namespace = name.toLowerCase().replace(/[^a-z]+/g, '-');
      await client.create(resources.namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
      try {
        await scene(stageOf(client, namespace));
        return [name, { objects: await quiet(client, namespace) }] as const;
      } catch (error) {
        const left = JSON.stringify(await outcomeOf(client, namespace), undefined, 2);
        const log = controller.logLines((line) => line.includes(namespace)).slice(-10);
        const problem = `${program.name}: ${errorMessage(error)}\n${left}\n${log.join('\n')}`;
        return [name, { problem }] as const;
      }
    };
    return Object.fromEntries(await Promise.all(Object.entries(scenes).map(play)));
  });
}

export interface PlayedCluster {
  readonly assets: string;
  readonly advertisedAddress: string;
  readonly program: ControllerCommand;
  readonly featureGates?: readonly string[];
  /** Nodes by name, each with the namespaces whose pods it runs. */
  readonly nodes?: Readonly<Record<string, (namespace: string) => boolean>>;
}

export interface RunningController {
  readonly client: KubeClient;
  readonly server: KubeApiserver;
  readonly controller: ControllerUnderTest;
  /** Of this run. */
  readonly dir: string;
}

/** A controller that leads on an API server of its own, with nodes that are played. */
export async function withController<R>(
  { assets, advertisedAddress, program, featureGates = [], nodes = { node1: () => true } }: PlayedCluster,
  work: (running: RunningController) => Promise<R>,
): Promise<R> {
  const dir = mkdtempSync(path.join(tmpdir(), 'scenes-'));
  const server = await startKubeApiserver(assets, { flags: { 'advertise-address': advertisedAddress } });
  const access = await loadKubeAccess({ kubeconfig: server.adminKubeconfig });
  const client = new KubeClient({ userAgent: 'scenes', rateLimit: { qps: 1000, burst: 1000 } }, { access });
  const played = Object.entries(nodes).map(([name, isOwn]) => new PlayedNode(client, name, isOwn));
  const controller = new ControllerUnderTest(program, { dir, kubeconfig: server.adminKubeconfig, admin: client }, 1);
  let storage: Component[] = [];
  try {
    for (const kind of [...importerKinds, ...snapshotKinds]) await client.create(definitions, definitionOf(kind));
    server.kubectl('wait', '--for=condition=Established', 'crd', '--all', '--timeout=30s');
    storage = await startStorage(client, dir);
    await installForOtherControllers({ kind: 'cluster', admin: client });
    await client.create(resources.kubevirts, {
      ...{ apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata: { name: 'kubevirt', namespace: 'kubevirt' } },
      spec: { configuration: { developerConfiguration: { useEmulation: true, featureGates } } },
    } as KubeObject);
    const target = { namespace: 'kubevirt', name: 'kubevirt' };
    await client.patch(resources.kubevirts, target, { status: { phase: 'Deployed' } }, 'merge', {
      subresource: 'status',
    });
    for (const node of played) await node.start();
    await controller.start();
    await controller.leads();
    const result = await work({ client, server, controller, dir });
    const problems = played.flatMap((node) => node.problems);
    if (problems.length > 0) throw new Error(problems.join('; '));
    return result;
  } finally {
    await controller.stop('SIGKILL');
    for (const node of played) await node.stop();
    for (const component of storage.toReversed()) await component.stop();
    client.close();
    await server.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

/** That of the standalone node: claims are bound to images of this machine, snapshots are copies of them. */
async function startStorage(client: KubeClient, dir: string): Promise<Component[]> {
  const components = await new NodeStorage(nodePaths(path.join(dir, 'storage')), {
    client,
    log: silentLogger,
  }).components();
  for (const component of components) await component.start(AbortSignal.timeout(30_000));
  return components;
}

function stageOf(client: KubeClient, namespace: string): Stage {
  const list = <T extends KubeObject>(type: ResourceType) =>
    client.list<T>(type, { namespace }).then(({ items }) => items);
  async function wait<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
    const end = performance.now() + limitMs;
    for (;;) {
      const found = await look();
      if (found !== undefined) return found;
      if (performance.now() > end) throw new Error(`${what}: not in ${limitMs} ms`);
      await sleep(lookMs);
    }
  }
  return {
    client,
    namespace,
    create: async (type, name, spec) => {
      const apiVersion = type.group === '' ? type.version : `${type.group}/${type.version}`;
      await client.create(type, { apiVersion, kind: type.kind, metadata: { name, namespace }, spec } as KubeObject);
    },
    remove: async (type, name) => {
      await client.delete(type, { namespace, name });
    },
    patch: async (type, name, body) => {
      await client.patch(type, { namespace, name }, body, 'merge');
    },
    until: <T extends KubeObject>(type: ResourceType, name: string, holds: (object: T) => boolean) =>
      wait(`${type.kind} ${name}`, async () =>
        (await list<T>(type)).find((each) => each.metadata.name === name && holds(each)),
      ),
    untilGone: async (type, name) => {
      await wait(`end of ${type.kind} ${name}`, async () => {
        return (await list(type)).some((each) => each.metadata.name === name) ? undefined : true;
      });
    },
    untilCount: async (type, count, holds) => {
      await wait(
        `${count} of ${type.kind}`,
        async () => (await list(type)).filter(holds).length === count || undefined,
      );
    },
  };
}

/** When nothing has changed for a while. */
async function quiet(client: KubeClient, namespace: string): Promise<Objects> {
  const end = performance.now() + limitMs;
  let [last, sinceMs] = ['', performance.now()];
  while (performance.now() < end && performance.now() - sinceMs < quietMs) {
    const now = JSON.stringify(await outcomeOf(client, namespace));
    if (now !== last) [last, sinceMs] = [now, performance.now()];
    await sleep(lookMs);
  }
  return JSON.parse(last) as Objects;
}

async function outcomeOf(client: KubeClient, namespace: string): Promise<Objects> {
  const objects: KubeObject[] = [];
  for (const type of compared) {
    const { items } = await client.list<KubeObject>(type, { namespace });
    objects.push(...items.map((item) => ({ ...item, kind: type.kind })));
  }
  const replaced = replacements(objects);
  const tidy = (text: string) =>
    replaced
      .reduce((all, [from, to]) => all.replaceAll(from, to), text)
      .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
      .replace(/(revision-start-vm-[^"]*)-\d+\b/g, '$1-GENERATION')
      .replace(/"resourceVersion":"\d+"/g, '"resourceVersion":"VERSION"')
      .replace(/[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}/g, 'UUID')
      .replace(/virt-launcher-([a-z0-9-]+)-[a-z0-9]{5}\b/g, 'virt-launcher-$1-*');
  const plain = objects.map((object) => [keyOf(object), JSON.parse(tidy(JSON.stringify(shown(object))))] as const);
  const events = plain.filter(([, object]) => 'reason' in object);
  const others = plain.filter(([, object]) => !('reason' in object)).map(([key, object]) => [tidy(key), object]);
  const told = events.map(([, { involved, type, reason, message }]) => `${involved}: ${type} ${reason}: ${message}`);
  return {
    ...Object.fromEntries(others),
    ...Object.fromEntries(told.sort().map((text) => [`events.${text}`, 'told'])),
  };
}

const keyOf = ({ kind, metadata }: KubeObject) => `${kind} ${metadata.name}`;

/** Identities by what they are of; names that end with chance by their place. */
function replacements(objects: readonly KubeObject[]): [string, string][] {
  const generated = objects.filter(({ kind, metadata }) => 'generateName' in metadata && kind !== 'Pod');
  const numbered = generated.map(({ metadata }, index): [string, string] => [
    String(metadata.name),
    `${(metadata as { generateName?: string }).generateName}${index}`,
  ]);
  const identities = objects.map(({ kind, metadata }): [string, string] => {
    const name = kind === 'Pod' ? 'launcher' : metadata.name;
    return [metadata.uid ?? 'none', `UID of ${kind} ${name}`];
  });
  return [...identities, ...numbered];
}

interface Event extends KubeObject {
  readonly involvedObject: { readonly kind: string; readonly name: string };
  readonly type: string;
  readonly reason: string;
  readonly message: string;
}

function shown(object: KubeObject): object {
  if (object.kind === resources.events.kind) {
    const { involvedObject, type, reason, message } = object as Event;
    return { involved: `${involvedObject.kind} ${involvedObject.name}`, type, reason, message };
  }
  const { metadata, ...rest } = object;
  const { labels, annotations, finalizers, ownerReferences } = metadata;
  const plain = { metadata: { labels, annotations, finalizers, ownerReferences } };
  if (object.kind !== resources.pods.kind) return { ...plain, ...rest };
  return { ...plain, conditions: (object as Pod).status?.conditions };
}

/** The VM as most scenes have it, with a disk on one volume. */
export function vmSpec(runStrategy: string, volume: object = { cloudInitNoCloud: { userData: '#cloud-config' } }) {
  const devices = {
    disks: [{ name: 'disk', disk: { bus: 'virtio' } }],
    interfaces: [{ name: 'default', masquerade: {} }],
  };
  const spec = {
    ...{ architecture: 'amd64', networks: [{ name: 'default', pod: {} }] },
    domain: { devices, machine: { type: 'q35' }, memory: { guest: '64Mi' } },
    volumes: [{ name: 'disk', ...volume }],
  };
  return { runStrategy, template: { metadata: { labels: { app: 'guest' } }, spec } };
}

export const isReady = (vm: VirtualMachine): boolean => vm.status?.ready === true;
