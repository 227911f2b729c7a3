import {
  attribute,
  children,
  elementAt,
  LibvirtFileError,
  parseDocument,
  textOf,
  type XmlElement,
} from '../libvirt-xml/index.ts';

/** `virsh_domcapabilities.xml`: what guests of this hypervisor can be. Lists have no order and no doubles. */
export interface DomainFacts {
  /** Absent: this hypervisor has no host model, as on arm64. */
  readonly hostModel?: { readonly name: string; readonly vendor: string; readonly requiredFeatures: readonly string[] };
  /** Whose usability libvirt knows. */
  readonly knownModels: readonly string[];
  readonly usableModels: readonly string[];
  readonly sev: boolean;
  readonly sevEs: boolean;
  readonly sevSnp: boolean;
  readonly secureExecution: boolean;
  readonly tdx: boolean;
  /** Hyper-V enlightenments in libvirt's words: `stimer`. */
  readonly hyperv: readonly string[];
}

/** `capabilities.xml`: the machine below. */
export interface MachineFacts {
  readonly machineTypes: readonly string[];
  /** Of those, the ones that will be removed from QEMU. */
  readonly deprecatedMachineTypes: readonly string[];
  readonly tsc?: { readonly frequencyHz: string; readonly scalable: boolean };
}

/** Throws LibvirtFileError. */
export function readDomainCapabilities(xml: string): DomainFacts {
  const root = parseDocument(xml, 'domainCapabilities');
  const modes = children(elementAt(root, 'cpu'), 'mode');
  if (modes.length === 0) throw new LibvirtFileError('WRONG_DOCUMENT', 'it says nothing of CPU modes');
  const models = modes.flatMap((mode) => children(mode, 'model')).filter((model) => attribute(model, 'usable') !== '');
  const usable = models.filter((model) => attribute(model, 'usable') !== 'no');
  const hostModel = readHostModel(modes);
  const features = elementAt(root, 'features');
  return {
    ...(hostModel && { hostModel }),
    knownModels: names(models),
    usableModels: names(usable),
    ...confidential(features),
    secureExecution: isSupported(elementAt(features, 's390-pv')),
    tdx: isSupported(elementAt(features, 'tdx')),
    hyperv: enumValues(elementAt(features, 'hyperv'), 'features'),
  };
}

/** Throws LibvirtFileError. */
export function readCapabilities(xml: string): MachineFacts {
  const root = parseDocument(xml, 'capabilities');
  const host = elementAt(root, 'host');
  if (host === undefined) throw new LibvirtFileError('WRONG_DOCUMENT', 'it says nothing of the host');
  const machines = children(root, 'guest').flatMap((guest) => children(elementAt(guest, 'arch'), 'machine'));
  const tsc = children(elementAt(host, 'cpu'), 'counter').find((counter) => attribute(counter, 'name') === 'tsc');
  const frequencyHz = attribute(tsc, 'frequency');
  return {
    machineTypes: names(machines),
    deprecatedMachineTypes: names(machines.filter((machine) => attribute(machine, 'deprecated') === 'yes')),
    ...(/^\d{1,20}$/.test(frequencyHz) && { tsc: { frequencyHz, scalable: attribute(tsc, 'scaling') === 'yes' } }),
  };
}

/** `supported_features.xml`: every feature a guest can have; s390x writes them without a policy. Throws LibvirtFileError. */
export function readSupportedFeatures(xml: string, arch: string): readonly string[] {
  const root = parseDocument(xml, 'cpu');
  const policies = arch === 's390x' ? ['require', ''] : ['require'];
  return featureNames(root, policies);
}

function readHostModel(modes: readonly XmlElement[]): DomainFacts['hostModel'] {
  const mode = modes.find((one) => attribute(one, 'name') === 'host-model');
  const model = elementAt(mode, 'model');
  if (model === undefined) return undefined;
  const vendor = textOf(elementAt(mode, 'vendor'));
  return { name: textOf(model), vendor, requiredFeatures: featureNames(mode, ['require']) };
}

function confidential(features: XmlElement | undefined): Pick<DomainFacts, 'sev' | 'sevEs' | 'sevSnp'> {
  const element = elementAt(features, 'sev');
  const launchSecurity = elementAt(features, 'launchSecurity');
  const sev = isSupported(element);
  const sevEs = sev && Number(textOf(elementAt(element, 'maxESGuests'))) > 0;
  const kinds = children(launchSecurity, 'enum').flatMap((one) => children(one, 'value').map(textOf));
  return { sev, sevEs, sevSnp: sevEs && isSupported(launchSecurity) && kinds.includes('sev-snp') };
}

function isSupported(element: XmlElement | undefined): boolean {
  return attribute(element, 'supported') === 'yes';
}

function enumValues(parent: XmlElement | undefined, name: string): readonly string[] {
  if (!isSupported(parent)) return [];
  const list = children(parent, 'enum').find((one) => attribute(one, 'name') === name);
  return names(children(list, 'value'));
}

function featureNames(parent: XmlElement | undefined, policies: readonly string[]): readonly string[] {
  const wanted = children(parent, 'feature').filter((feature) => policies.includes(attribute(feature, 'policy')));
  return distinct(wanted.map((feature) => attribute(feature, 'name')));
}

function names(elements: readonly XmlElement[]): readonly string[] {
  return distinct(elements.map(textOf));
}

function distinct(all: readonly string[]): readonly string[] {
  return [...new Set(all.filter((name) => name !== ''))];
}
