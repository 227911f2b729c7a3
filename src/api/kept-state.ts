import { isRecord, memberAt } from '../base/index.ts';

/** What a guest's firmware keeps between two starts of its VM, on a claim of its own (upstream: pkg/storage/backend-storage). */
export const keptState = {
  /** Label of such a claim; its value is the name of the VM. A claim without it that is named `<label>-<VM>` is one of an older KubeVirt. */
  label: 'persistent-state-for',
  /** On the claim of a guest that is on its way: the migration's name. */
  migrationLabel: 'kubevirt.io/migrationName',
  /** On a claim whose place a restored one has taken: that of the VM's state by upstream's name for it. Such a claim is deleted. */
  obsoleteLabel: 'restore.kubevirt.io/cleanup-backend-pvc',
  /** The claim's entry in `status.volumeStatus`. */
  volumeStatus: 'persistent-state-for-this-vm',
} as const;

/** A TPM that is there and keeps what it knows; `domain` is that of a VMI, or of a VM's template. */
export function keepsTpm(domain: unknown): boolean {
  const tpm = memberAt(domain, 'devices', 'tpm');
  return isRecord(tpm) && tpm.enabled !== false && tpm.persistent === true;
}

/** EFI variables that outlive the VMI. */
export function keepsEfi(domain: unknown): boolean {
  return memberAt(domain, 'firmware', 'bootloader', 'efi', 'persistent') === true;
}

export function keepsState(domain: unknown): boolean {
  return keepsTpm(domain) || keepsEfi(domain);
}
