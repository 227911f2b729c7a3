import {
  type PersistentVolume,
  type PersistentVolumeClaim,
  type Pod,
  type PodStatus,
  resources,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import type { Component, Logger } from '../../base/index.ts';
import {
  type EventRecorder,
  fieldSelector,
  getIfThere,
  Informer,
  type KubeClient,
  writeIfThere,
} from '../../kube/index.ts';
import type { HostDisk } from './host-disks.ts';
import type { PodSource } from './ports.ts';

export interface KubePodsOptions {
  readonly nodeName: string;
}

export interface KubePodsDeps {
  readonly client: KubeClient;
  readonly events: EventRecorder;
  readonly log: Logger;
}

interface DataObject {
  apiVersion: string;
  kind: string;
  metadata: { name: string };
  data?: Record<string, string>;
  binaryData?: Record<string, string>;
}

/** The pods of one node, from an API server. */
export class KubePods implements PodSource, Component {
  readonly name = 'pods of this node';
  readonly #deps: KubePodsDeps;
  readonly #informer: Informer<Pod>;

  constructor(options: KubePodsOptions, deps: KubePodsDeps) {
    this.#deps = deps;
    this.#informer = new Informer<Pod>(
      {
        type: resources.pods,
        fieldSelector: fieldSelector({ 'spec.nodeName': options.nodeName }),
        indexes: { uid: (pod) => [pod.metadata.uid ?? ''] },
        backoff: { baseMs: 100, maxMs: 2_000 },
      },
      { client: deps.client, log: deps.log },
    );
  }

  get isSynced(): boolean {
    return this.#informer.hasSynced;
  }

  /** Resolves when the first complete list is there. */
  async start(signal: AbortSignal): Promise<void> {
    await this.#informer.start();
    await this.#informer.waitForSync(signal);
  }

  stop(): Promise<void> {
    return this.#informer.stop();
  }

  get(uid: string): Pod | undefined {
    return this.#informer.byIndex('uid', uid)[0];
  }

  list(): readonly Pod[] {
    return this.#informer.list();
  }

  subscribe(onChange: (uid: string) => void): () => void {
    const publish = (pod: Pod) => {
      if (pod.metadata.uid) onChange(pod.metadata.uid);
    };
    return this.#informer.addHandlers({ added: publish, updated: (_, pod) => publish(pod), deleted: publish });
  }

  async patchStatus(pod: Pod, status: PodStatus): Promise<void> {
    // A strategic merge keeps the fields of a condition that are not named.
    const conditions = status.conditions?.map((condition) => ({ reason: null, message: null, ...condition }));
    const body = { metadata: { uid: pod.metadata.uid }, status: { ...status, ...(conditions && { conditions }) } };
    await writeIfThere(
      this.#deps.client.patch(resources.pods, pod.metadata, body, 'strategic', { subresource: 'status' }),
    );
  }

  async delete(pod: Pod): Promise<void> {
    await writeIfThere(
      this.#deps.client.delete(resources.pods, pod.metadata, { graceSeconds: 0, uid: pod.metadata.uid }),
    );
  }

  async readObject(kind: 'secret' | 'configMap', namespace: string, name: string) {
    const type = kind === 'secret' ? resources.secrets : resources.configMaps;
    const object = await getIfThere<DataObject>(this.#deps.client, type, { namespace, name });
    if (!object) return undefined;
    const binary = kind === 'secret' ? object.data : object.binaryData;
    const text = kind === 'secret' ? {} : object.data;
    return new Map([
      ...Object.entries(binary ?? {}).map(([key, value]) => [key, Buffer.from(value, 'base64')] as const),
      ...Object.entries(text ?? {}).map(([key, value]) => [key, Buffer.from(value)] as const),
    ]);
  }

  claim(namespace: string, name: string): Promise<PersistentVolumeClaim | undefined> {
    return getIfThere<PersistentVolumeClaim>(this.#deps.client, resources.persistentVolumeClaims, { namespace, name });
  }

  volume(name: string): Promise<PersistentVolume | undefined> {
    return getIfThere<PersistentVolume>(this.#deps.client, resources.persistentVolumes, { name });
  }

  async hostDisksOf(pod: Pod): Promise<ReadonlyMap<string, HostDisk>> {
    const owner = pod.metadata.ownerReferences?.find(({ kind }) => kind === 'VirtualMachineInstance');
    if (!owner) return new Map();
    const ref = { namespace: pod.metadata.namespace ?? 'default', name: owner.name };
    const type = resources.virtualMachineInstances;
    const vmi = await getIfThere<VirtualMachineInstance>(this.#deps.client, type, ref);
    if (!vmi || vmi.metadata.uid !== owner.uid) return new Map();
    return new Map((vmi.spec.volumes ?? []).flatMap(({ name, hostDisk }) => (hostDisk ? [[name, hostDisk]] : [])));
  }

  recordEvent(pod: Pod, type: 'Normal' | 'Warning', reason: string, message: string): void {
    this.#deps.events.record({ ...pod, apiVersion: 'v1', kind: 'Pod' }, type, reason, message);
  }
}
