import type { VirtualMachine } from '../../api/index.ts';
import type { ImageRow } from '../rows.ts';
import { type Fields, fieldsOf, listOfFields, textOf } from './json-fields.ts';
import type { FieldProblem } from './refusal.ts';
import { isKept, type KeptRoot, keptRootOf, ownRootOf, withRoot } from './vm-form-root.ts';

/** The fields of a VM that the form has. What else is in the VM stays as it is. */
export interface VmForm {
  readonly name: string;
  readonly namespace: string;
  /** It is started when it is made, and again when it ends. */
  readonly isStarted: boolean;
  /** `VirtualMachineClusterInstancetype/small`; empty: CPUs and memory are its own. */
  readonly instancetype: string;
  readonly preference: string;
  readonly cores: string;
  /** A Kubernetes quantity. */
  readonly memory: string;
  readonly firmware: 'bios' | 'efi';
  /** What it boots: an image of the node, an ISO that installs onto its disk, a claim that has a system, or a disk of its own that begins as something else. */
  readonly source: 'image' | 'iso' | 'claim' | KeptRoot['source'];
  readonly image: string;
  readonly claim: string;
  /** What its own disk is fetched from, and how large that is. */
  readonly url: string;
  readonly rootSize: string;
  /** `scratch`: empty at each start. `claim`: kept. */
  readonly disk: 'none' | 'scratch' | 'claim';
  readonly diskSize: string;
  readonly diskClaim: string;
  readonly network: 'pod' | 'none';
  readonly userData: string;
}

/** What there is to choose from. */
export interface Offers {
  readonly images: readonly ImageRow[];
  /** Why nobody knows which images there are. */
  readonly imagesProblem?: string;
  readonly namespaces: readonly string[];
  readonly claims: readonly string[];
  /** `Kind/name` */
  readonly instancetypes: readonly string[];
  readonly preferences: readonly string[];
  /** Of instance types, in words. */
  readonly sizes: ReadonlyMap<string, string>;
}

/** "2 CPUs, 4Gi of memory": what an instance type gives. Total, whatever is in it. */
export function instancetypeSize(type: unknown): string {
  const { cpu, memory } = fieldsOf(fieldsOf(type).spec);
  const [cpus, amount] = [textOf(fieldsOf(cpu).guest), textOf(fieldsOf(memory).guest)];
  return [cpus && `${cpus} ${cpus === '1' ? 'CPU' : 'CPUs'}`, amount && `${amount} of memory`]
    .filter(Boolean)
    .join(', ');
}

/** What each part of the form is shown with. */
export interface VmFormProps {
  readonly form: VmForm;
  readonly offers: Offers;
  readonly problems: readonly FieldProblem[];
  readonly claimSize: string;
  /** The claim of its disk is not there yet. */
  readonly makesClaim: boolean;
  readonly onChange: (fields: Partial<VmForm>) => void;
  readonly onClaimSize: (size: string) => void;
}

/** Names of the form's volumes. */
const names = { root: 'root', iso: 'iso', disk: 'disk', cloudInit: 'cloudinit', network: 'default' } as const;
const kernelFiles = { kernelPath: '/boot/vmlinuz', initrdPath: '/boot/initramfs.gz' };
const kernelArgs = 'console=tty0 console=ttyS0 noreplace-smp cryptomgr.notests no_timer_check quiet';
const usualScratch = '2Gi';

/** What the form begins with. */
export function newVm(image: ImageRow | undefined): VirtualMachine {
  const vm: VirtualMachine = {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachine',
    metadata: { name: '', namespace: 'default' },
    spec: {
      runStrategy: 'Always',
      template: {
        spec: {
          domain: { cpu: { cores: 1 }, memory: { guest: '1Gi' }, devices: { disks: [], interfaces: [], rng: {} } },
          networks: [],
          volumes: [],
        },
      },
    },
  };
  const start: Partial<VmForm> = { network: 'pod', ...(image && { image: image.reference }) };
  return withForm(vm, start, image ? [image] : []);
}

export function formOf(vm: VirtualMachine): VmForm {
  const { metadata, spec } = vm;
  const template = fieldsOf(fieldsOf(fieldsOf(spec).template).spec);
  const domain = fieldsOf(template.domain);
  const firmware = fieldsOf(domain.firmware);
  const volume = (name: string) => listOfFields(template.volumes).find((each) => each.name === name);
  const [root, iso, disk, seed] = [names.root, names.iso, names.disk, names.cloudInit].map(volume);
  const claim = claimOf(root);
  const kept = keptRootOf(fieldsOf(spec).dataVolumeTemplates, root);
  const kernel = textOf(fieldsOf(fieldsOf(firmware.kernelBoot).container).image);
  const diskClaim = claimOf(disk);
  return {
    name: textOf(metadata.name),
    namespace: textOf(metadata.namespace),
    isStarted: spec.runStrategy === undefined ? spec.running === true : spec.runStrategy !== 'Halted',
    instancetype: matcherText(fieldsOf(spec).instancetype, 'VirtualMachineClusterInstancetype'),
    preference: matcherText(fieldsOf(spec).preference, 'VirtualMachineClusterPreference'),
    cores: textOf(fieldsOf(domain.cpu).cores),
    memory: textOf(fieldsOf(domain.memory).guest),
    firmware: fieldsOf(firmware.bootloader).efi === undefined ? 'bios' : 'efi',
    source: iso ? 'iso' : claim === '' ? 'image' : 'claim',
    image: kernel || textOf(fieldsOf((iso ?? root)?.containerDisk).image),
    claim,
    ...{ url: '', rootSize: '' },
    ...kept,
    disk: disk === undefined ? 'none' : diskClaim === '' ? 'scratch' : 'claim',
    diskSize: textOf(fieldsOf(disk?.emptyDisk).capacity),
    diskClaim,
    network: listOfFields(template.networks).length > 0 ? 'pod' : 'none',
    userData: textOf(fieldsOf(seed?.cloudInitNoCloud).userData),
  };
}

function claimOf(volume: Fields | undefined): string {
  return textOf(fieldsOf(volume?.persistentVolumeClaim).claimName);
}

function matcherText(matcher: unknown, usualKind: string): string {
  const { kind, name } = fieldsOf(matcher);
  return name === undefined ? '' : `${textOf(kind) || usualKind}/${textOf(name)}`;
}

/** The VM with these fields changed. `images`: those of the node, by what they boot. */
export function withForm(
  vm: VirtualMachine,
  change: Partial<VmForm>,
  images: readonly ImageRow[] = [],
): VirtualMachine {
  const draft: Draft = structuredClone(vm) as unknown as Draft;
  const before = formOf(vm);
  const form = { ...before, ...change };
  const isChanged = (...fields: readonly (keyof VmForm)[]) => fields.some((field) => before[field] !== form[field]);
  if (isChanged('name', 'namespace')) setName(draft, before, form);
  if (isChanged('isStarted')) {
    delete draft.spec.running;
    draft.spec.runStrategy = form.isStarted ? 'Always' : 'Halted';
  }
  if (isChanged('instancetype')) setInstancetype(draft, form);
  if (isChanged('preference')) setMatcher(draft.spec, 'preference', form.preference);
  if (isChanged('cores')) setMember(domainOf(draft), 'cpu', 'cores', numberOrText(form.cores));
  if (isChanged('memory')) setMember(domainOf(draft), 'memory', 'guest', form.memory || undefined);
  if (isChanged('firmware')) setFirmware(draft, form);
  if (
    isChanged('source', 'image', 'claim', 'url', 'rootSize') ||
    (isKept(form.source) && isChanged('name', 'namespace'))
  )
    setSource(draft, form, images);
  if (isChanged('disk', 'diskSize', 'diskClaim', 'source')) setDisk(draft, form);
  if (isChanged('network')) setNetwork(draft, form);
  if (isChanged('userData')) setUserData(draft, form);
  return draft as unknown as VirtualMachine;
}

/** A VM that is being changed; what is missing is made. */
interface Draft {
  metadata: Record<string, unknown>;
  spec: Record<string, unknown>;
}

type Values = Record<string, unknown>;

function within(holder: Values, name: string): Values {
  const value = holder[name];
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Values;
  const made: Values = {};
  holder[name] = made;
  return made;
}

function listIn(holder: Values, name: string): Values[] {
  const value = holder[name];
  if (Array.isArray(value)) return value as Values[];
  const made: Values[] = [];
  holder[name] = made;
  return made;
}

function templateOf({ spec }: Draft): Values {
  return within(within(spec, 'template'), 'spec');
}

function domainOf(draft: Draft): Values {
  return within(templateOf(draft), 'domain');
}

/** Undefined takes it away, and what is empty then. */
function setMember(holder: Values, outer: string, inner: string, value: unknown): void {
  const values = within(holder, outer);
  if (value === undefined) delete values[inner];
  else values[inner] = value;
  if (Object.keys(values).length === 0) delete holder[outer];
}

function numberOrText(text: string): number | string | undefined {
  if (text === '') return undefined;
  return /^\d{1,9}$/.test(text) ? Number(text) : text;
}

/** Of the disk that is made for it; it is renamed with the machine, for another one must not find it under this name. */
export const ownClaimOf = (name: string) => `${name}-disk`;

function setName(draft: Draft, before: VmForm, { name, namespace }: VmForm): void {
  draft.metadata.name = name;
  draft.metadata.namespace = namespace;
  const ownClaim = ownClaimOf(before.name);
  for (const volume of listIn(templateOf(draft), 'volumes')) {
    const claim = fieldsOf(volume.persistentVolumeClaim);
    if (volume.name === names.disk && claim.claimName === ownClaim) {
      volume.persistentVolumeClaim = { ...claim, claimName: ownClaimOf(name) };
    }
  }
}

/** It says CPUs and memory itself, and does not let a VM say them, too. */
function setInstancetype(draft: Draft, { instancetype, cores, memory }: VmForm): void {
  setMatcher(draft.spec, 'instancetype', instancetype);
  const domain = domainOf(draft);
  const isOwn = instancetype === '';
  setMember(domain, 'cpu', 'cores', isOwn ? (numberOrText(cores) ?? 1) : undefined);
  setMember(domain, 'memory', 'guest', isOwn ? memory || '1Gi' : undefined);
}

function setMatcher(spec: Values, member: string, text: string): void {
  const [kind, name] = text.split('/');
  if (kind && name) spec[member] = { kind, name };
  else delete spec[member];
}

function setFirmware(draft: Draft, { firmware }: VmForm): void {
  const bootloader = firmware === 'efi' ? { efi: { secureBoot: false } } : undefined;
  setMember(domainOf(draft), 'firmware', 'bootloader', bootloader);
}

function setSource(draft: Draft, form: VmForm, images: readonly ImageRow[]): void {
  const { name, source, image, claim } = form;
  const root = listIn(templateOf(draft), 'volumes').find((each) => each.name === names.root);
  const kept = isKept(source) ? { ...form, source } : undefined;
  const templates = withRoot(draft.spec.dataVolumeTemplates, root, form, kept);
  if (templates) draft.spec.dataVolumeTemplates = templates;
  else delete draft.spec.dataVolumeTemplates;
  const isKernel =
    source === 'image' && images.some(({ reference, boots }) => reference === image && boots === 'kernel');
  const kernelBoot = isKernel ? { kernelArgs, container: { image, ...kernelFiles } } : undefined;
  setMember(domainOf(draft), 'firmware', 'kernelBoot', kernelBoot);
  const disk = { disk: { bus: 'virtio' } };
  if (kept) putVolume(draft, names.root, { dataVolume: { name: ownRootOf(name) } }, disk);
  else if (source === 'claim') putVolume(draft, names.root, { persistentVolumeClaim: { claimName: claim } }, disk);
  else if (source === 'image' && !isKernel && image !== '')
    putVolume(draft, names.root, { containerDisk: { image } }, disk);
  else putVolume(draft, names.root, undefined, disk);
  const cd = { cdrom: { bus: 'sata' }, bootOrder: 2 };
  putVolume(draft, names.iso, source === 'iso' ? { containerDisk: { image } } : undefined, cd);
}

/** An ISO is booted when there is nothing on the disk yet. */
function setDisk(draft: Draft, { name, source, disk, diskSize, diskClaim }: VmForm): void {
  const device = { disk: { bus: 'virtio' }, ...(source === 'iso' && { bootOrder: 1 }) };
  const volume = {
    none: undefined,
    scratch: { emptyDisk: { capacity: diskSize || usualScratch } },
    claim: { persistentVolumeClaim: { claimName: diskClaim || ownClaimOf(name) } },
  }[disk];
  putVolume(draft, names.disk, volume, device);
}

function setNetwork(draft: Draft, { network }: VmForm): void {
  const template = templateOf(draft);
  const devices = within(domainOf(draft), 'devices');
  const hasOne = network === 'pod';
  template.networks = hasOne ? [{ name: names.network, pod: {} }] : [];
  devices.interfaces = hasOne ? [{ name: names.network, masquerade: {} }] : [];
  if (hasOne) delete devices.autoattachPodInterface;
  else devices.autoattachPodInterface = false;
}

function setUserData(draft: Draft, { userData }: VmForm): void {
  const volume = userData === '' ? undefined : { cloudInitNoCloud: { userData } };
  putVolume(draft, names.cloudInit, volume, { disk: { bus: 'virtio' } });
}

/** With its disk, where both were; undefined takes both away. */
function putVolume(draft: Draft, name: string, volume: object | undefined, disk: object): void {
  const volumes = listIn(templateOf(draft), 'volumes');
  const disks = listIn(within(domainOf(draft), 'devices'), 'disks');
  put(volumes, name, volume);
  put(disks, name, volume && disk);
}

function put(list: Values[], name: string, value: object | undefined): void {
  const at = list.findIndex((each) => each.name === name);
  if (value === undefined) {
    if (at >= 0) list.splice(at, 1);
  } else if (at >= 0) list[at] = { name, ...value };
  else list.push({ name, ...value });
}

/** A claim that the form's disk needs and that is not there yet; undefined: none. */
export function claimToMake(
  { namespace, disk, diskClaim }: VmForm,
  size: string,
  known: readonly string[],
): { readonly metadata: { readonly name: string; readonly namespace: string } } | undefined {
  if (disk !== 'claim' || diskClaim === '' || known.includes(diskClaim)) return undefined;
  const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: size } } };
  const head = { apiVersion: 'v1', kind: 'PersistentVolumeClaim' };
  return { ...head, metadata: { name: diskClaim, namespace }, ...{ spec } };
}

/** Which field of the form a path of the API is about; undefined: none. */
export function fieldAt(path: string): keyof VmForm | undefined {
  return fieldPaths.find(([start]) => path === start || path.startsWith(`${start}.`))?.[1];
}

/** What the API says about a field, in one text; empty: nothing. */
export function problemOf(problems: readonly FieldProblem[], field: keyof VmForm): string {
  return problems
    .filter((each) => fieldAt(each.field) === field)
    .map(({ message }) => message)
    .join(' ');
}

const domain = 'spec.template.spec.domain';
const fieldPaths: readonly (readonly [path: string, field: keyof VmForm])[] = [
  ['metadata.name', 'name'],
  ['metadata.namespace', 'namespace'],
  ['spec.dataVolumeTemplates[0].spec.source', 'url'],
  ['spec.dataVolumeTemplates[0].spec.storage', 'rootSize'],
  ['spec.instancetype', 'instancetype'],
  ['spec.preference', 'preference'],
  [`${domain}.cpu`, 'cores'],
  [`${domain}.memory`, 'memory'],
  [`${domain}.resources.requests.memory`, 'memory'],
  [`${domain}.firmware.bootloader`, 'firmware'],
  [`${domain}.firmware.kernelBoot`, 'image'],
];

/** User data of cloud-init that makes this user; empty where there is nothing to say. */
export function cloudConfig(login: { readonly user: string; readonly password: string; readonly key: string }): string {
  const { user, password, key } = login;
  const keys = key
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);
  if (user === '' && password === '' && keys.length === 0) return '';
  // What is quoted as JSON is a text of YAML, whatever is in it.
  const lines = [
    '#cloud-config',
    ...(user === '' ? [] : [`user: ${JSON.stringify(user)}`]),
    ...(password === ''
      ? []
      : [`password: ${JSON.stringify(password)}`, 'chpasswd: { expire: false }', 'ssh_pwauth: true']),
    ...(keys.length === 0 ? [] : ['ssh_authorized_keys:', ...keys.map((line) => `  - ${JSON.stringify(line)}`)]),
  ];
  return `${lines.join('\n')}\n`;
}
