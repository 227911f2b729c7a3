import { fileSize } from '../file-size.ts';
import { type Fields, fieldsOf, listOfFields, textOf } from './json-fields.ts';

/** A disk as its table shows it. */
export interface DiskLine {
  readonly name: string;
  /** `disk, virtio` */
  readonly kind: string;
  /** Where what is on it is. */
  readonly source: string;
  readonly size: string;
  /** In the guest; empty: it does not run. */
  readonly target: string;
  readonly state: string;
}

export interface InterfaceLine {
  readonly name: string;
  readonly binding: string;
  readonly network: string;
  readonly mac: string;
  readonly addresses: string;
  readonly state: string;
}

/** `spec`: of the instance, or of the template. `status`: of the instance, where there is one. */
export function diskLines(spec: unknown, status: unknown): readonly DiskLine[] {
  const { domain, volumes } = fieldsOf(spec);
  const devices = fieldsOf(fieldsOf(domain).devices);
  const known = new Map(listOfFields(volumes).map((volume) => [textOf(volume.name), volume]));
  const states = new Map(listOfFields(fieldsOf(status).volumeStatus).map((each) => [textOf(each.name), each]));
  const disks = listOfFields(devices.disks).map((disk) => {
    const name = textOf(disk.name);
    return diskLine(name, diskKind(disk), known.get(name) ?? {}, states.get(name) ?? {});
  });
  // KubeVirt gives a volume without a disk one of its own.
  const named = new Set(disks.map(({ name }) => name));
  const others = [...known].filter(([name]) => !named.has(name));
  return [...disks, ...others.map(([name, volume]) => diskLine(name, 'disk', volume, states.get(name) ?? {}))];
}

function diskLine(name: string, kind: string, volume: Fields, state: Fields): DiskLine {
  return {
    ...{ name, kind },
    source: sourceOf(volume),
    size: sizeOf(volume, state),
    target: textOf(state.target),
    state: [textOf(state.phase), textOf(state.message)].filter(Boolean).join(': '),
  };
}

function diskKind(disk: Fields): string {
  const kind = ['cdrom', 'lun', 'disk'].find((each) => disk[each] !== undefined) ?? 'disk';
  const { bus, readonly } = fieldsOf(disk[kind]);
  const order = textOf(disk.bootOrder);
  const parts = [
    kind === 'cdrom' ? 'CD' : kind,
    textOf(bus),
    readonly === true && 'read only',
    order && `boots ${order}.`,
  ];
  return parts.filter(Boolean).join(', ');
}

const sources: Readonly<Record<string, (volume: Fields) => string>> = {
  containerDisk: ({ image }) => `image ${textOf(image)}, changes are lost`,
  persistentVolumeClaim: ({ claimName }) => `claim ${textOf(claimName)}`,
  dataVolume: ({ name }) => `DataVolume ${textOf(name)}`,
  ephemeral: (volume) => `claim ${textOf(fieldsOf(volume.persistentVolumeClaim).claimName)}, changes are lost`,
  hostDisk: ({ path }) => `file ${textOf(path)}`,
  emptyDisk: () => 'scratch: empty at each start',
  cloudInitNoCloud: () => 'cloud-init',
  cloudInitConfigDrive: () => 'cloud-init',
  configMap: ({ name }) => `ConfigMap ${textOf(name)}`,
  secret: ({ secretName }) => `Secret ${textOf(secretName)}`,
  serviceAccount: ({ serviceAccountName }) => `ServiceAccount ${textOf(serviceAccountName)}`,
};

function sourceOf(volume: Fields): string {
  const kind = Object.keys(volume).find((key) => key !== 'name') ?? '';
  const text = Object.hasOwn(sources, kind) ? sources[kind]?.(fieldsOf(volume[kind])) : undefined;
  return text ?? kind;
}

function sizeOf(volume: Fields, state: Fields): string {
  const claim = fieldsOf(fieldsOf(state.persistentVolumeClaimInfo).capacity).storage;
  const bytes = Number(state.size);
  if (bytes > 0) return fileSize(bytes);
  return textOf(fieldsOf(volume.emptyDisk).capacity ?? fieldsOf(volume.hostDisk).capacity ?? claim);
}

export function interfaceLines(spec: unknown, status: unknown): readonly InterfaceLine[] {
  const { domain, networks } = fieldsOf(spec);
  const devices = fieldsOf(fieldsOf(domain).devices);
  const known = new Map(listOfFields(networks).map((network) => [textOf(network.name), network]));
  const states = new Map(listOfFields(fieldsOf(status).interfaces).map((each) => [textOf(each.name), each]));
  return listOfFields(devices.interfaces).map((link) => {
    const name = textOf(link.name);
    const state = states.get(name) ?? {};
    const addresses = Array.isArray(state.ipAddresses) ? state.ipAddresses.map(textOf) : [textOf(state.ipAddress)];
    return {
      name,
      binding: [bindingOf(link), textOf(link.model)].filter(Boolean).join(', '),
      network: networkText(known.get(name) ?? {}),
      mac: textOf(state.mac) || textOf(link.macAddress),
      addresses: addresses.filter(Boolean).join(', '),
      state: [textOf(state.interfaceName), textOf(state.linkState)].filter(Boolean).join(', '),
    };
  });
}

function bindingOf(link: Fields): string {
  const named = textOf(fieldsOf(link.binding).name);
  return named || (['masquerade', 'bridge', 'passt', 'sriov', 'slirp'].find((each) => link[each] !== undefined) ?? '');
}

function networkText(network: Fields): string {
  const multus = textOf(fieldsOf(network.multus).networkName);
  return multus || (network.pod === undefined ? '' : 'pod network');
}
