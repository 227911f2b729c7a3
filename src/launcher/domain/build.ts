import { domainName, type VirtualMachineInstance } from '../../api/index.ts';
import type { ConverterContext } from './context.ts';
import { cpuElement, cpuShape, vcpuElements } from './cpu.ts';
import { deviceElements } from './devices.ts';
import { invalid } from './errors.ts';
import { clockElement, featuresElement } from './features.ts';
import { domainUuid, osElement, sysinfoElement } from './firmware.ts';
import { ignitionElements, ignitionOf } from './ignition.ts';
import { launchSecurityElement } from './launch-security.ts';
import { memoryElements, memoryShape, numaElement } from './memory.ts';
import { fileNamePart } from './names.ts';
import { numaPassthrough } from './numa-passthrough.ts';
import { cpuTuneElement, placeCpus } from './placement.ts';
import { refuseUnsupported } from './refuse.ts';
import { renderXml, type XmlContent } from './xml.ts';

const metadataNamespace = 'http://kubevirt.io';

/**
 * The domain XML of a VMI (upstream's `pkg/virt-launcher/virtwrap/converter`), ready for `virDomainDefineXML`. Pure. Throws
 * `ConvertError`.
 */
export function buildDomainXml(vmi: VirtualMachineInstance, context: ConverterContext): string {
  if (!vmi.spec?.domain) throw invalid('spec.domain', 'is missing');
  refuseUnsupported(vmi, context);
  const name = fileNamePart('metadata.name', vmi.metadata.name);
  const namespace = fileNamePart('metadata.namespace', vmi.metadata.namespace);
  const cpu = cpuShape(vmi);
  const memory = memoryShape(vmi);
  const { devices, ioThreads } = deviceElements(vmi, context);
  const placement = placeCpus(vmi, cpu, ioThreads, context);
  const isNuma = placement && vmi.spec.domain.cpu?.numa?.guestMappingPassthrough;
  const cells = isNuma ? numaPassthrough(placement.vcpus, memory, context.options?.topology) : undefined;
  const numa = cells?.numa ?? numaElement(memory, cpu);
  const clock = clockElement(vmi);
  const ignition = ignitionOf(vmi, context.paths);
  return renderXml('domain', {
    '@type': context.hypervisor,
    name: domainName(namespace, name),
    uuid: domainUuid(vmi),
    metadata: { kubevirt: { '@xmlns': metadataNamespace, uid: vmi.metadata.uid ?? '' } },
    ...memoryElements(memory, cells?.pages),
    ...vcpuElements(cpu),
    ...(ioThreads.count > 0 && { iothreads: ioThreads.count }),
    ...(placement && { cputune: cpuTuneElement(placement) }),
    ...(cells && { numatune: cells.numatune }),
    sysinfo: sysinfoElement(vmi, context),
    os: osElement(vmi, context),
    features: featuresElement(vmi),
    cpu: { ...cpuElement(vmi, cpu, context), ...(numa && { numa }) },
    ...(clock && { clock }),
    ...rebootElement(vmi),
    ...launchSecurityElement(vmi),
    devices,
    ...(ignition && ignitionElements(ignition)),
  });
}

function rebootElement(vmi: VirtualMachineInstance): XmlContent {
  const policy = vmi.spec.domain.rebootPolicy;
  if (!policy) return {};
  if (policy !== 'Reboot' && policy !== 'Terminate') {
    throw invalid('spec.domain.rebootPolicy', `${policy} is none of Reboot, Terminate`);
  }
  return { on_reboot: policy === 'Terminate' ? 'destroy' : 'restart' };
}
