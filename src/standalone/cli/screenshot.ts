import { AgentApi, agentOf, vmPath } from '../agent-api/index.ts';
import { NodeError } from '../errors.ts';
import { writeFileAtomic } from '../files.ts';
import type { NodePaths } from '../paths.ts';
import { explained, type VmName } from './vm-agent.ts';

export interface Picture {
  /** PNG from every QEMU of today; older ones give a portable pixmap. */
  readonly mime: string;
  readonly bytes: Buffer;
}

/** What is on the screen of a VM. Rejects with NodeError. */
export async function takeScreenshot(paths: NodePaths, vm: VmName): Promise<Picture> {
  const asking = new AgentApi(agentOf(paths)).call('GET', `${vmPath(vm.namespace, vm.name)}/vnc/screenshot`);
  const { contentType, body } = await explained(paths, vm, asking);
  if (body.length === 0) throw new NodeError('AGENT_FOREIGN', 'virt-handler answered with an empty picture');
  return { mime: contentType, bytes: body };
}

/** Writes it to `file`, or to `<name>.png` here; gives the name. */
export async function savePicture({ mime, bytes }: Picture, name: string, file: string | undefined): Promise<string> {
  const chosen = file ?? `${name}.${mime.includes('png') ? 'png' : 'ppm'}`;
  await writeFileAtomic(chosen, bytes, 0o644);
  return chosen;
}
