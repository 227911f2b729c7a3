import {
  controllerOf,
  findCondition,
  isFinal,
  type Key,
  keyOf,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { isKubeError, type KubeClient } from '../../kube/index.ts';

/** The guest of a VM that a snapshot is taken of. */
export interface GuestFacts {
  /** A VMI is there. */
  readonly isOnline: boolean;
  readonly isPaused: boolean;
  readonly hasAgent: boolean;
  /** Its file systems are frozen, as its node says. */
  readonly isFrozen: boolean;
}

/** In a guest's words (Windows VSS), and in ours when a guest was thawed before all was taken. */
export const freezeLimit = 'fsfreeze is limited';

export const noGuest: GuestFacts = { isOnline: false, isPaused: false, hasAgent: false, isFrozen: false };

/** One of the VM's name that is another's does not count. */
export function vmiOf(
  vm: VirtualMachine,
  vmis: { get(key: Key): VirtualMachineInstance | undefined },
): VirtualMachineInstance | undefined {
  const vmi = vmis.get(keyOf(vm));
  return vmi && controllerOf(vmi)?.uid === vm.metadata.uid ? vmi : undefined;
}

export function guestOf(vmi: VirtualMachineInstance | undefined): GuestFacts {
  if (!vmi) return noGuest;
  const is = (type: string) => findCondition(vmi.status?.conditions, type)?.status === 'True';
  const isRunning = !isFinal(vmi);
  return {
    isOnline: true,
    isPaused: is('Paused'),
    hasAgent: isRunning && is('AgentConnected'),
    isFrozen: isRunning && vmi.status?.fsFreezeStatus === 'frozen',
  };
}

/** Its agent flushes and freezes what it can. */
export const canFreeze = ({ hasAgent, isPaused }: GuestFacts) => hasAgent && !isPaused;

const base = '/apis/subresources.kubevirt.io/v1/namespaces';
/** A guest may need as long to write what it holds in memory. */
const callTimeoutMs = 60_000;

type Raw = Pick<KubeClient, 'raw'>;

/** One of the VMI's subresources that change a guest, as virt-api or the standalone node serves it. Rejects with KubeError. */
export async function orderGuest(
  { namespace, name }: { readonly namespace?: string | undefined; readonly name: string },
  order: string,
  body: object | undefined,
  client: Raw,
  signal: AbortSignal,
): Promise<void> {
  const path = `${base}/${namespace}/virtualmachineinstances/${name}/${order}`;
  await client.raw({ method: 'PUT', path, body, signal, timeoutMs: callTimeoutMs, dropsAnswer: true });
}

/** `thawAfterMs`: the launcher thaws it then by itself. Rejects with KubeError. */
export async function freeze(
  guest: { readonly namespace?: string; readonly name: string },
  thawAfterMs: number,
  client: Raw,
  signal: AbortSignal,
): Promise<void> {
  const body = { unfreezeTimeout: `${Math.max(1, Math.ceil(thawAfterMs / 1_000))}s` };
  await orderGuest(guest, 'freeze', body, client, signal);
}

/** A guest that is gone needs none. Rejects with KubeError. */
export async function thaw(
  guest: { readonly namespace?: string; readonly name: string },
  client: Raw,
  signal: AbortSignal,
): Promise<void> {
  try {
    await orderGuest(guest, 'unfreeze', undefined, client, signal);
  } catch (error) {
    if (!isKubeError(error, 'NOT_FOUND')) throw error;
  }
}
