/** What the environment of a container says of the devices that a plug-in gave it, by kind. */
export const deviceVariables = { pci: 'PCI_RESOURCE', mdev: 'MDEV_PCI_RESOURCE', usb: 'USB_RESOURCE' } as const;

/** `PCI_RESOURCE_EXAMPLE_COM_GPU`: where the launcher looks for the addresses of what it was given of `example.com/gpu`. */
export function deviceVariable(kind: keyof typeof deviceVariables, resource: string): string {
  return `${deviceVariables[kind]}_${resource.toUpperCase().replaceAll(/[/.]/g, '_')}`;
}
