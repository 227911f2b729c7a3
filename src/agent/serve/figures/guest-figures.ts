import { explainApiVersion, type GuestFigures } from '../../../api/index.ts';
import { isRecord, listOf, memberAt } from '../../../base/index.ts';

const jsonLimit = 1024 * 1024;
const maxDevices = 256;
const kib = 1024;
/** `libvirt.VCPU_OFFLINE` */
const offline = 0;

type Measured = Omit<GuestFigures, 'apiVersion' | 'kind' | 'node' | 'at' | 'uid'>;

/** Of DomainStats (pkg/virt-launcher/virtwrap/stats/types.go). Undefined: the guest is vanishing. Throws for what is no such text. */
export function measuredFigures(json: string): Measured | undefined {
  if (json.length > jsonLimit) throw new RangeError(`an answer of ${json.length} characters is too large`);
  const stats: unknown = json === '' ? {} : JSON.parse(json);
  if (!isRecord(stats)) throw new SyntaxError('the statistics are no object');
  if (typeof stats.Name !== 'string' || stats.Name === '') return undefined;
  return {
    cpuSeconds: (figure(stats.Cpu, 'Time') ?? 0) / 1e9,
    vcpus: listOf(stats.Vcpu).filter((vcpu) => figure(vcpu, 'State') !== offline).length,
    memory: memoryOf(stats.Memory),
    disks: devices(stats.Block).map((disk) => ({
      name: nameOf(disk),
      readBytes: figure(disk, 'RdBytes') ?? 0,
      writtenBytes: figure(disk, 'WrBytes') ?? 0,
    })),
    interfaces: devices(stats.Net).map((link) => ({
      name: nameOf(link),
      receivedBytes: figure(link, 'RxBytes') ?? 0,
      sentBytes: figure(link, 'TxBytes') ?? 0,
    })),
  };
}

function memoryOf(memory: unknown): Measured['memory'] {
  const [available, usable, unused] = ['Available', 'Usable', 'Unused'].map((name) => figure(memory, name));
  const free = usable ?? unused;
  const resident = figure(memory, 'RSS');
  return {
    totalBytes: (figure(memory, 'ActualBalloon') ?? figure(memory, 'Total') ?? 0) * kib,
    ...(available !== undefined && free !== undefined && { usedBytes: Math.max(0, available - free) * kib }),
    ...(resident !== undefined && { residentBytes: resident * kib }),
  };
}

function devices(list: unknown): readonly unknown[] {
  return listOf(list).slice(0, maxDevices);
}

function nameOf(device: unknown): string {
  const names = [memberAt(device, 'Alias'), memberAt(device, 'Name')];
  return names.filter((name) => typeof name === 'string').find((name) => name !== '') ?? '';
}

/** Undefined: the launcher does not know it. */
function figure(of: unknown, name: string): number | undefined {
  const value = memberAt(of, name);
  const isKnown = memberAt(of, `${name}Set`) === true;
  return isKnown && typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined;
}

export function figuresDocument(measured: Measured, of: { node: string; uid: string; at: Date }): GuestFigures {
  return {
    apiVersion: explainApiVersion,
    kind: 'Figures',
    node: of.node,
    at: of.at.toISOString(),
    uid: of.uid,
    ...measured,
  };
}
