import { hotPlugVolumesOf, type VirtualMachineInstance } from '../../../../api/index.ts';
import { errorCode } from '../../../../base/index.ts';
import { deviceNumbersOf, readPlainFileSync, type SafePath, type StandardRule } from '../../../../host/index.ts';
import { LauncherRoot } from '../launcher-root.ts';

/**
 * What container runtimes let every container have, by the OCI runtime specification (config-linux.md, default devices), and what
 * upstream lets every launcher have (pkg/virt-handler/cgroup/util.go): terminals, /dev/net/tun, /dev/vhost-net.
 */
const always: readonly StandardRule[] = [
  { type: 'char', onlyMake: true },
  { type: 'block', onlyMake: true },
  ...[3, 5, 7, 8, 9].map((minor) => ({ type: 'char', major: 1, minor }) as const),
  ...[0, 1, 2].map((minor) => ({ type: 'char', major: 5, minor }) as const),
  ...Array.from({ length: 16 }, (_, index) => ({ type: 'char', major: 136 + index }) as const),
  { type: 'char', major: 10, minor: 200 },
  { type: 'char', major: 10, minor: 238 },
];

/** Entries of its /dev that are looked at, and so the devices that are taken over. */
const maxEntries = 256;
const maxDepth = 3;
const maxListBytes = 64 * 1024;
/** By the kernel's documentation of device numbers; `vfio` is the container of all groups. */
const kvm = { major: 10, minor: 232 };
const vsock = { major: 10, minor: 241 };
const vfio = { major: 10, minor: 196 };

export interface StandardDevicesOptions {
  readonly procDir: string;
  /** The kernel's list of drivers. */
  readonly driversFile?: string;
}

/**
 * All that a launcher may open besides what is plugged. Beyond what every launcher has this is what its VMI asks for and its pod was given:
 * claims that are block devices, KVM, VSOCK, SEV, and devices of device plugins. Whoever may make nodes in the launcher's own /dev may
 * give them any numbers: each is taken for what the kernel says of its numbers, and not for its name.
 */
export function standardDevices(
  vmi: VirtualMachineInstance,
  launcherPid: number,
  { procDir, driversFile = '/proc/devices' }: StandardDevicesOptions,
): StandardRule[] {
  const drivers = characterDrivers(driversFile);
  const own = new OwnDevices(new LauncherRoot(launcherPid, procDir));
  const isMisc = ({ type, major }: StandardRule) => type === 'char' && major === 10;
  own.take('kvm', isDevice(kvm));
  if (vmi.spec.domain.devices?.autoattachVSOCK) own.take('vhost-vsock', isDevice(vsock));
  if (vmi.spec.domain.launchSecurity) own.take('sev', (rule) => isMisc(rule) || drivers.get(rule.major ?? 0) === 'sev');
  for (const name of blockVolumes(vmi)) own.take(name, ({ type }) => type === 'block');
  const isVfio = (rule: StandardRule) =>
    isDevice(vfio)(rule) || (rule.type === 'char' && (drivers.get(rule.major ?? 0)?.startsWith('vfio') ?? false));
  own.takeAll('vfio', isVfio);
  own.takeAll('bus/usb', ({ type, major }) => type === 'char' && drivers.get(major ?? 0) === 'usb_device');
  return [...always, ...own.rules];
}

/** Its claims from the start on; those that are plugged are allowed one by one. */
function blockVolumes(vmi: VirtualMachineInstance): string[] {
  const plugged = new Set(hotPlugVolumesOf(vmi).map(({ name }) => name));
  const blocks = new Set(
    (vmi.status?.volumeStatus ?? []).flatMap(({ name, persistentVolumeClaimInfo }) =>
      persistentVolumeClaimInfo?.volumeMode === 'Block' ? [name] : [],
    ),
  );
  return (vmi.spec.volumes ?? []).flatMap(({ name, persistentVolumeClaim, dataVolume }) => {
    const isClaim = persistentVolumeClaim !== undefined || dataVolume !== undefined;
    const isName = !name.includes('/') && name !== '.' && name !== '..' && name !== '';
    return isClaim && isName && blocks.has(name) && !plugged.has(name) ? [name] : [];
  });
}

function isDevice(wanted: { readonly major: number; readonly minor: number }) {
  return ({ type, major, minor }: StandardRule) => type === 'char' && major === wanted.major && minor === wanted.minor;
}

/** Major number → driver. */
function characterDrivers(file: string): ReadonlyMap<number, string> {
  const [characters = ''] = readPlainFileSync(file, maxListBytes).split('\nBlock devices:');
  const lines = characters.split('\n').map((line) => line.trim().split(' '));
  return new Map(lines.flatMap(([major = '', name = '']) => (major === '' ? [] : [[Number(major), name] as const])));
}

/** Nodes of one launcher's /dev. */
class OwnDevices {
  readonly rules: StandardRule[] = [];
  readonly #root: LauncherRoot;
  #left = maxEntries;

  constructor(root: LauncherRoot) {
    this.#root = root;
  }

  take(name: string, isMeant: (rule: StandardRule) => boolean): void {
    this.#root.use('/dev', (directory) => this.#takeEntry(directory, name, isMeant, 0));
  }

  /** All in a directory, and in directories in it. */
  takeAll(directory: string, isMeant: (rule: StandardRule) => boolean): void {
    this.#root.use(`/dev/${directory}`, (opened) => this.#takeEntries(opened, isMeant, maxDepth));
  }

  #takeEntries(directory: SafePath, isMeant: (rule: StandardRule) => boolean, depth: number): void {
    if (!directory.stat().isDirectory()) return;
    for (const name of directory.someNames(this.#left)) this.#takeEntry(directory, name, isMeant, depth);
  }

  #takeEntry(directory: SafePath, name: string, isMeant: (rule: StandardRule) => boolean, depth: number): void {
    if (this.#left === 0) return;
    this.#left--;
    const entry = entryOf(directory, name);
    try {
      const stat = entry?.stat();
      if (entry && stat?.isDirectory() && depth > 0) this.#takeEntries(entry, isMeant, depth - 1);
      if (!stat?.isBlockDevice() && !stat?.isCharacterDevice()) return;
      const rule: StandardRule = { type: stat.isBlockDevice() ? 'block' : 'char', ...deviceNumbersOf(stat.rdev) };
      if (isMeant(rule)) this.rules.push(rule);
    } finally {
      entry?.close();
    }
  }
}

function entryOf(directory: SafePath, name: string): SafePath | undefined {
  try {
    return directory.entry(name);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}
