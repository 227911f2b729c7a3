import { binaryQuantity, type Domain, type GuestOsInfo, type VmiStatus } from '../../../api/index.ts';
import { projectBackup } from './backup.ts';
import { bounds, clip } from './bounds.ts';

/**
 * Fields of the status that are read off the domain (pkg/virt-handler/vm.go). Each leaves the old value where the domain says
 * nothing.
 */
export function projectDomainFields(status: VmiStatus, domain: Domain): void {
  const machine = domain.Spec?.OS?.Type?.Machine;
  if (machine) status.machine = { ...status.machine, type: clip(machine, bounds.guestTextBytes) };
  projectMemory(status, domain);
  projectGuestOs(status, domain.Status.OSInfo);
  projectFreeze(status, domain);
  projectBackup(status, domain);
}

const factors: Readonly<Record<string, number>> = {
  b: 1,
  bytes: 1,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  k: 2 ** 10,
  KiB: 2 ** 10,
  M: 2 ** 20,
  MiB: 2 ** 20,
  G: 2 ** 30,
  GiB: 2 ** 30,
  T: 2 ** 40,
  TiB: 2 ** 40,
};

function projectMemory(status: VmiStatus, domain: Domain): void {
  const current = domain.Spec?.CurrentMemory;
  const factor = current ? factors[current.Unit] : undefined;
  if (!current || factor === undefined || !Number.isFinite(current.Value)) return;
  status.memory = { ...status.memory, guestCurrent: binaryQuantity(current.Value * factor) };
}

const guestOsFields: readonly (readonly [keyof GuestOsInfo, string])[] = [
  ['Name', 'name'],
  ['KernelRelease', 'kernelRelease'],
  ['Version', 'version'],
  ['PrettyName', 'prettyName'],
  ['VersionId', 'versionId'],
  ['KernelVersion', 'kernelVersion'],
  ['Machine', 'machine'],
  ['Id', 'id'],
];

/** All fields are compared: upstream looks at the name only and misses a new kernel. */
function projectGuestOs(status: VmiStatus, info: GuestOsInfo | null | undefined): void {
  if (!info?.Name) return;
  const given = guestOsFields.filter(([field]) => Boolean(info[field]));
  status.guestOSInfo = Object.fromEntries(
    given.map(([field, name]) => [name, clip(info[field], bounds.guestTextBytes)]),
  );
}

function projectFreeze(status: VmiStatus, domain: Domain): void {
  const reported = domain.Status.FSFreezeStatus?.Status;
  if (!reported) return;
  if (reported === 'thawed') delete status.fsFreezeStatus;
  else status.fsFreezeStatus = clip(reported, bounds.guestTextBytes);
}
