/** Of a network card, six bytes, with colons or dashes. */
export function isMacAddress(text: string): boolean {
  return /^[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}$/i.test(text);
}

/** Network cards that a VMI may ask for. */
export const interfaceModels: readonly string[] = ['e1000', 'e1000e', 'igb', 'ne2k_pci', 'pcnet', 'rtl8139', 'virtio'];

/** A switch of a VMI that is there without a word is on, as KubeVirt's webhook reads `enabled`; one that is not there is off. */
export function isSwitchedOn(state: unknown): boolean {
  return typeof state === 'object' && state !== null && !('enabled' in state && state.enabled === false);
}
