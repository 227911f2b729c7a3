import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { type KubeObject, resources } from '../../api/index.ts';
import { errorMessage, memberAt, shownNames } from '../../base/index.ts';
import type { KubeClient } from '../../kube/index.ts';
import { NodeError } from '../errors.ts';
import { memberPaths, type NodePaths } from '../paths.ts';
import { type ImageStore, Sandboxes } from '../pod-runner/index.ts';
import { maxNodes, runningSupervisor } from '../supervisor/index.ts';
import { connectToNode } from './find-vmi.ts';

/** By kind and name: `VM default/demo`. */
export type ImageUsers = ReadonlyMap<string, readonly string[]>;

/**
 * Who names which image: VMs and VMIs of a node that runs; of one that does not only the pods are known that outlived it. Rejects with
 * NodeError NOT_RUNNING when a node runs and does not answer.
 */
export async function imageUsers(paths: NodePaths, images: ImageStore, references: readonly string[]) {
  if (!(await runningSupervisor(paths))) return usersOfMounts(paths, images, references);
  const client = await connectToNode(paths);
  try {
    return await usersOfObjects(client);
  } catch (cause) {
    const text = `which virtual machines use which image cannot be asked: ${errorMessage(cause)}`;
    throw new NodeError('NOT_RUNNING', text, { cause });
  } finally {
    client.close();
  }
}

/** Those that the API has. */
export async function usersOfObjects(client: KubeClient): Promise<ImageUsers> {
  const users = new Map<string, string[]>();
  const note = (reference: string, who: string) => users.set(reference, [...(users.get(reference) ?? []), who]);
  for (const vm of (await client.list<KubeObject>(resources.virtualMachines)).items) {
    for (const reference of imagesOf(memberAt(vm, 'spec', 'template', 'spec'))) note(reference, `VM ${nameOf(vm)}`);
  }
  for (const vmi of (await client.list<KubeObject>(resources.virtualMachineInstances)).items) {
    // That of a VM may run with an image that its VM does not name any more.
    const isSaid = (reference: string) => users.get(reference)?.includes(`VM ${nameOf(vmi)}`) === true;
    for (const reference of imagesOf(memberAt(vmi, 'spec'))) {
      if (!isSaid(reference)) note(reference, `VMI ${nameOf(vmi)}`);
    }
  }
  return users;
}

function nameOf({ metadata }: KubeObject): string {
  return `${metadata.namespace}/${metadata.name}`;
}

/** Of the spec of a VMI: disks, and kernels to boot. */
function imagesOf(spec: unknown): string[] {
  const volumes = memberAt(spec, 'volumes');
  const disks = (Array.isArray(volumes) ? volumes : []).map((volume) => memberAt(volume, 'containerDisk', 'image'));
  const kernel = memberAt(spec, 'domain', 'firmware', 'kernelBoot', 'container', 'image');
  return [...new Set([...disks, kernel].filter((one): one is string => typeof one === 'string'))];
}

/** Pods have the directories of images mounted, whatever became of their names since. */
async function usersOfMounts(paths: NodePaths, images: ImageStore, references: readonly string[]): Promise<ImageUsers> {
  const users = new Map<string, string[]>();
  for (let index = 1; index <= maxNodes; index++) {
    const { podsDir, libvirtCacheDir } = memberPaths(paths, index);
    const sandboxes = new Sandboxes({ podsDir, libvirtCacheDir, cgroupRoot: undefined, programs: [] });
    for (const uid of await sandboxes.list()) {
      const state = await sandboxes.inspect(uid);
      if (state.kind !== 'running') continue;
      const mounts = await readFile(`/proc/${state.init.pid}/mountinfo`, 'utf8').catch(() => '');
      for (const reference of references.filter((one) => isMounted(images.directoryOf(one), mounts))) {
        users.set(reference, [...(users.get(reference) ?? []), `a pod that runs (UID ${uid})`]);
      }
    }
  }
  return users;
}

/** Names of images have no letter that the kernel writes otherwise. */
function isMounted(dir: string, mountinfo: string): boolean {
  return mountinfo.includes(`/${path.basename(path.dirname(dir))}/${path.basename(dir)} `);
}

/** Throws NodeError IMAGE_IN_USE, which says by whom. */
export function refuseUsed(users: ImageUsers, reference: string, doing: string): void {
  const found = users.get(reference) ?? [];
  if (found.length === 0) return;
  const text = `${reference} is used by ${shownNames(found, 5)}: it is not ${doing}. Use another name, or --force: who runs keeps what it has until it ends`;
  throw new NodeError('IMAGE_IN_USE', text);
}
