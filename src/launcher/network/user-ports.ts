import type { VirtualMachineInstance } from '../../api/index.ts';

/** Why ports that a VMI lists are reached nowhere, where its guest has QEMU's own network; undefined: it lists none. */
export function unreachablePorts({ spec }: VirtualMachineInstance): string | undefined {
  const listed = (spec.domain.devices?.interfaces ?? []).filter(({ ports = [] }) => ports.length > 0);
  if (listed.length === 0) return undefined;
  const names = listed.map(({ name }) => name).join(', ');
  const why = 'the guest has user networking, into which nothing can be connected';
  return `the ports of interface ${names} are not published: ${why}; the first lines of the node say why, and what to install`;
}
