import path from 'node:path';
import { domainName, hasDedicatedCpus, isNonRoot, keepsTpm, type VirtualMachineInstance } from '../../api/index.ts';
import { listOf, memberAt, shownNames } from '../../base/index.ts';
import { MigrateFlag, type MigrationTarget } from '../../libvirt/index.ts';
import { type DomainOwner, type LiveDisk, sriovAlias } from '../domain/index.ts';
import { LauncherError } from '../errors.ts';
import type { MigrationSettings } from './settings.ts';

export interface MigrationFacts {
  readonly vmi: VirtualMachineInstance;
  readonly disks: readonly LiveDisk[];
  /** Aliases of devices of the machine. */
  readonly hostDevices: readonly string[];
  /** 7 of QEMU 7.2. */
  readonly qemuMajor: number;
  readonly isPausedByUser: boolean;
  /** Directory of the agent's sockets that lead to the target. */
  readonly proxyDir: string;
  /** This launcher's own libvirt is a session daemon. */
  readonly isSession: boolean;
  /** The other VMI object that the guest moves to; absent: it stays its VMI's. */
  readonly destination?: DomainOwner | undefined;
}

/** What libvirt is asked for. */
export interface MigrationPlan {
  readonly target: MigrationTarget;
  /** `MigrateFlag`. */
  readonly flags: number;
  /** Interfaces with a device of the machine, which the guest gives up before. */
  readonly sriovInterfaces: readonly string[];
  /** What is done otherwise than it was asked for, for the user. */
  readonly warnings: readonly string[];
  /** The same, where it is usual: for the log. */
  readonly notes: readonly string[];
}

/** Of a migration that goes on already. */
export const noPlan: MigrationPlan = {
  target: { connectUri: '' },
  flags: 0,
  sriovInterfaces: [],
  warnings: [],
  notes: [],
};

const always = MigrateFlag.LIVE | MigrateFlag.PEER2PEER | MigrateFlag.PERSIST_DEST;
/** Before it QEMU takes the connection that arrives first for the main one. Our agent keeps their order where it can; upstream's does not, and may be at the source. */
const firstOrderedParallel = 8;
/** Ports of upstream's migration proxy, part of the sockets' names. */
const [memoryPort, disksPort] = [49_152, 49_153];

/** `<dir>/<uid>-source.sock`, or with a port `<dir>/<uid>-<port>-source.sock` (`pkg/virt-handler/migration-proxy`). */
export function proxySocket(dir: string, uid: string, port?: number): string {
  return path.join(dir, `${uid}${port === undefined ? '' : `-${port}`}-source.sock`);
}

/** Throws NOT_SUPPORTED, in words, for what this launcher cannot move. Pure. */
export function planMigration(facts: MigrationFacts, settings: MigrationSettings): MigrationPlan {
  refuseUnsupported(facts);
  const { vmi } = facts;
  const { uid = '' } = vmi.metadata;
  const isBlock = vmi.status?.migrationMethod === 'BlockMigration' || migratedVolumes(vmi).length > 0;
  const copied = isBlock ? disksToCopy(vmi, facts.disks) : [];
  const isParallel = settings.parallelConnections !== undefined && facts.qemuMajor >= firstOrderedParallel;
  const flags =
    always |
    flagIf(copied.length > 0, MigrateFlag.NON_SHARED_INC) |
    flagIf(settings.allowsUnsafe, MigrateFlag.UNSAFE) |
    flagIf(settings.allowsAutoConverge, MigrateFlag.AUTO_CONVERGE) |
    flagIf(settings.allowsPostCopy, MigrateFlag.POSTCOPY) |
    flagIf(facts.isPausedByUser, MigrateFlag.PAUSED) |
    flagIf(isParallel, MigrateFlag.PARALLEL);
  const target: MigrationTarget = {
    connectUri: connectUri(facts),
    migrateUri: `unix://${proxySocket(facts.proxyDir, uid, memoryPort)}`,
    destinationName: destinationName(facts),
    ...(copied.length > 0 && { disks: copied, disksUri: `unix://${proxySocket(facts.proxyDir, uid, disksPort)}` }),
    ...bandwidths(settings),
    ...(isParallel && { parallelConnections: settings.parallelConnections }),
  };
  return { target, flags, sriovInterfaces: sriovInterfacesIn(facts), ...remarks(facts, settings, isParallel) };
}

/** The same call with other flags goes on where a post-copy broke. */
export function planResume(facts: MigrationFacts): MigrationPlan {
  const { uid = '' } = facts.vmi.metadata;
  const migrateUri = `unix://${proxySocket(facts.proxyDir, uid, memoryPort)}`;
  const flags = always | MigrateFlag.POSTCOPY | MigrateFlag.POSTCOPY_RESUME;
  // By its own name libvirt there would not find a guest that is another VMI's by now.
  const target = { connectUri: connectUri(facts), migrateUri, destinationName: destinationName(facts) };
  return { ...noPlan, target, flags };
}

function destinationName({ vmi, destination }: MigrationFacts): string {
  const { namespace = '', name } = destination ?? vmi.metadata;
  return domainName(namespace, name ?? '');
}

export const usesPostCopy = ({ flags }: Pick<MigrationPlan, 'flags'>) => (flags & MigrateFlag.POSTCOPY) !== 0;
export const isResume = ({ flags }: Pick<MigrationPlan, 'flags'>) => (flags & MigrateFlag.POSTCOPY_RESUME) !== 0;

export function withoutPostCopy(plan: MigrationPlan): MigrationPlan {
  const { postCopyBandwidthMiBps: _, ...target } = plan.target;
  return { ...plan, target, flags: plan.flags & ~MigrateFlag.POSTCOPY };
}

/** The limit holds after the switch, too: of what moves by itself there, not of pages that the guest waits for. */
function bandwidths({ bandwidthMiBps, allowsPostCopy }: MigrationSettings): Partial<MigrationTarget> {
  if (bandwidthMiBps === undefined) return {};
  return { bandwidthMiBps, ...(allowsPostCopy && { postCopyBandwidthMiBps: bandwidthMiBps }) };
}

/**
 * Target devices of the disks whose content only this node has. Never a read-only one: libvirt's target refuses the whole migration
 * for it, and makes such disks itself, from the same sources.
 */
export function disksToCopy(vmi: VirtualMachineInstance, disks: readonly LiveDisk[]): string[] {
  const volumes = volumesOf(vmi);
  const moving = new Set(migratedVolumes(vmi));
  return disks
    .filter(({ device, isReadOnly, source }) => (device === 'disk' || device === 'lun') && !isReadOnly && source !== '')
    .filter(({ name }) => moving.has(name) || !isShared(volumes.get(name)))
    .map(({ target }) => target);
}

const volumesOf = ({ spec }: VirtualMachineInstance) =>
  new Map(listOf(spec.volumes).map((volume) => [memberAt(volume, 'name'), volume]));

const isClaim = (volume: unknown) =>
  ['persistentVolumeClaim', 'dataVolume'].some((kind) => Boolean(memberAt(volume, kind)));

const isShared = (volume: unknown) => isClaim(volume) || memberAt(volume, 'hostDisk', 'shared') === true;

/** Names of volumes whose content goes to another claim. */
export function migratedVolumes({ status }: VirtualMachineInstance): string[] {
  return listOf(status?.migratedVolumes).flatMap((each) => {
    const name = memberAt(each, 'volumeName');
    return typeof name === 'string' ? [name] : [];
  });
}

/** Its disk would be a file on one side and a device on the other. */
function changesItsMode(moved: unknown): boolean {
  const modes = ['sourcePVCInfo', 'destinationPVCInfo'].map((end) => memberAt(moved, end, 'volumeMode') === 'Block');
  return modes[0] !== modes[1];
}

/** A root daemon takes both paths, a session daemon only its own. */
function connectUri({ vmi, isSession, proxyDir }: MigrationFacts): string {
  const daemon = isSession || isNonRoot(vmi) ? 'session' : 'system';
  return `qemu+unix:///${daemon}?socket=${proxySocket(proxyDir, vmi.metadata.uid ?? '')}`;
}

function remarks({ qemuMajor }: MigrationFacts, settings: MigrationSettings, isParallel: boolean) {
  const { compression, parallelConnections } = settings;
  return {
    warnings:
      compression === undefined
        ? []
        : [`the migration is not compressed: ${compression} is not supported by this launcher`],
    notes:
      parallelConnections === undefined || isParallel
        ? []
        : [
            `one connection instead of ${parallelConnections}: QEMU ${qemuMajor} cannot tell several apart behind a proxy`,
          ],
  };
}

const isSriov = (alias: string) => alias.startsWith(sriovAlias(''));

/** Throws INVALID_REQUEST. */
function sriovInterfacesIn({ hostDevices, isPausedByUser }: MigrationFacts): string[] {
  const names = hostDevices.filter(isSriov).map((alias) => alias.slice(sriovAlias('').length));
  if (names.length === 0 || !isPausedByUser) return names;
  const problem = `a paused guest cannot give up its SR-IOV interfaces (${shownNames(names)}), and cannot migrate with them`;
  throw new LauncherError('INVALID_REQUEST', `${problem}: let it run, and migrate it again`);
}

function refuseUnsupported({ vmi, hostDevices, disks, destination }: MigrationFacts): void {
  const others = hostDevices.filter((alias) => !isSriov(alias));
  const moving = migratedVolumes(vmi);
  const [volumes, hasUuid] = [volumesOf(vmi), Boolean(vmi.spec.domain.firmware?.uuid)];
  const isLeft = ({ name }: LiveDisk) => isClaim(volumes.get(name)) && !moving.includes(name);
  const what = [
    hasDedicatedCpus(vmi) && 'dedicated CPUs',
    others.length > 0 && `devices of the host (${shownNames(others.map((alias) => alias || 'one without a name'))})`,
    // They are taken from the guest when its description for the other VMI is made already.
    destination && hostDevices.length > 0 && 'SR-IOV interfaces, to another VMI,',
    !destination && moving.length > 0 && 'volumes that move to other claims',
    listOf(vmi.status?.migratedVolumes).some(changesItsMode) &&
      'volumes that move from a file system to a block device, or back',
    // A claim is never that of another namespace.
    destination && disks.some(isLeft) && 'claims that do not move with it (status.migratedVolumes)',
    // It is kept by the domain's UUID, which would be another one at the next start.
    destination &&
      keepsTpm(vmi.spec.domain) &&
      !hasUuid &&
      'a persistent TPM and no spec.domain.firmware.uuid, to another VMI',
  ].find(Boolean);
  if (!what) return;
  throw new LauncherError('NOT_SUPPORTED', `live migration of a guest with ${what} is not supported by this launcher`);
}

function flagIf(condition: boolean, flag: number): number {
  return condition ? flag : 0;
}
