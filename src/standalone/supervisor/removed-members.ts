import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { annotations, type Pod, resources, type VirtualMachineInstance } from '../../api/index.ts';
import { type KubeClient, writeIfThere } from '../../kube/index.ts';
import { forgetAgentAddress } from '../agent-api/index.ts';
import { NodeError } from '../errors.ts';
import { memberName, memberPaths, membersDir, type NodePaths } from '../paths.ts';
import { mountsBelow, unshareMounts } from '../pod-runner/index.ts';

export interface WantedNodes {
  readonly paths: NodePaths;
  readonly nodeName: string;
  readonly nodes: number;
}

/**
 * Takes away the nodes of an earlier start that are not wanted any more: their objects, tokens and directories. Throws NodeError
 * NODE_IN_USE, and takes none away, when one still has virtual machines or is the target of a migration.
 */
export async function removeMembers(client: KubeClient, { paths, nodeName, nodes }: WantedNodes): Promise<void> {
  const found = await readdir(membersDir(paths)).catch((): string[] => []);
  const removed = found.map(Number).filter((index) => Number.isInteger(index) && index > nodes);
  if (removed.length === 0) return;
  const pods = (await client.list<Pod>(resources.pods)).items;
  const vmis = (await client.list<VirtualMachineInstance>(resources.virtualMachineInstances)).items;
  for (const index of removed) {
    const name = memberName(nodeName, index);
    const vms = machinesOn(name, pods, vmis);
    if (vms.length > 0) throw inUse(name, vms, nodes, Math.max(...removed));
  }
  for (const index of removed) {
    const name = memberName(nodeName, index);
    const ended = pods.filter(({ spec }) => spec.nodeName === name);
    for (const { metadata } of ended) {
      await writeIfThere(client.delete(resources.pods, metadata, { graceSeconds: 0, uid: metadata.uid }));
    }
    await writeIfThere(client.delete(resources.nodes, { name }));
    await removeFiles(paths, index);
  }
}

/** Of what has not ended; a target pod is there before its VMI is. */
function machinesOn(node: string, pods: readonly Pod[], vmis: readonly VirtualMachineInstance[]): string[] {
  const isFinal = (phase: string | undefined) => phase === 'Succeeded' || phase === 'Failed';
  const inPods = pods
    .filter(({ spec, status }) => spec.nodeName === node && !isFinal(status?.phase))
    .map(
      ({ metadata: { namespace, name, annotations: given } }) => `${namespace}/${given?.[annotations.domain] ?? name}`,
    );
  const there = vmis.filter(({ status }) => status?.nodeName === node && !isFinal(status.phase));
  return [...new Set([...inPods, ...there.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`)])].sort();
}

function inUse(node: string, vms: readonly string[], nodes: number, highest: number): NodeError {
  const move = `start with --nodes ${highest}, then move them away (kubectl drain ${node} --delete-emptydir-data) or stop them`;
  return new NodeError(
    'NODE_IN_USE',
    `--nodes ${nodes}: node ${node} would go and still has ${vms.join(', ')}: ${move}`,
  );
}

async function removeFiles(paths: NodePaths, index: number): Promise<void> {
  const member = memberPaths(paths, index);
  await forgetAgentAddress(member);
  for (const name of ['virt-handler', 'node'] as const) {
    await rm(member.kubeconfigs[name], { force: true });
    await rm(path.join(paths.apiDir, 'tokens', memberName(name, index)), { force: true });
  }
  await rm(member.shareDir, { recursive: true, force: true });
  await unshareMounts(member.podsDir);
  const mounts = await mountsBelow(member.kubeletDir);
  if (mounts.length === 0) await rm(member.kubeletDir, { recursive: true, force: true });
}
