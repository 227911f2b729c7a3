import { GuestDial } from '../guest-dial.ts';
import { memberName, memberPaths, type NodePaths } from '../paths.ts';
import { findCgroupRoot, Sandboxes } from '../pod-runner/index.ts';

/** The pods of the node with this name; undefined: it is none of this machine. */
export type SandboxesByNode = (nodeName: string) => Sandboxes | undefined;

/** Of each node of this machine: only to find what runs. */
export async function sandboxesByNode(options: {
  readonly paths: NodePaths;
  readonly nodeName: string;
  readonly nodes: number;
}): Promise<SandboxesByNode> {
  const { paths, nodeName, nodes } = options;
  const cgroupRoot = await findCgroupRoot('virt-node');
  const members = Array.from({ length: nodes }, (_, at) => {
    const { podsDir, libvirtCacheDir } = memberPaths(paths, at + 1);
    const sandboxes = new Sandboxes({ podsDir, libvirtCacheDir, cgroupRoot, programs: [] });
    return [memberName(nodeName, at + 1), sandboxes] as const;
  });
  const byName = new Map(members);
  return (name) => byName.get(name);
}

/** Connects to ports of guests of these pods. */
export function guestDialOf(sandboxesOf: SandboxesByNode): GuestDial {
  return new GuestDial(async (nodeName, podUid) => sandboxesOf(nodeName)?.processOf(podUid));
}
