import { isRecord, memberAt, whyUnsafe } from '../base/index.ts';
import { type KubeVirt, readAnnotations } from './active-kubevirt.ts';

/** The last KubeVirt object that could be used, as far as it is read. */
export interface KeptConfiguration {
  readonly kubevirt: KubeVirt;
  /** When it was read from the API server. */
  readonly asOf: Date;
}

/** Bumped when an older agent could take the content for something else. */
const formatVersion = 1;
const maxDepth = 64;
const maxNameLength = 253;
const identity = ['namespace', 'name', 'uid', 'resourceVersion'] as const;
type Identity = (typeof identity)[number];

/** Undefined: the object has no identity, or cannot be walked safely, and is not kept. */
export function toKeptText({ kubevirt, asOf }: KeptConfiguration): string | undefined {
  const { metadata, spec } = kubevirt;
  if (identity.some((member) => !isName(metadata[member]))) return undefined;
  const configuration = spec?.configuration ?? {};
  if (whyUnsafe(configuration, maxDepth) !== undefined) return undefined;
  const named = Object.fromEntries(identity.map((member) => [member, metadata[member]]));
  const annotations = Object.entries(metadata.annotations ?? {}).filter(([key]) => readAnnotations.includes(key));
  const content = {
    version: formatVersion,
    asOf: asOf.toISOString(),
    metadata: { ...named, annotations: Object.fromEntries(annotations) },
    configuration,
  };
  return `${JSON.stringify(content)}\n`;
}

/** Throws an Error that says what is wrong; nothing of the text is believed. */
export function fromKeptText(text: string): KeptConfiguration {
  const content: unknown = JSON.parse(text);
  const unsafe = whyUnsafe(content, maxDepth + 1);
  if (unsafe !== undefined) throw new Error(unsafe);
  if (memberAt(content, 'version') !== formatVersion) throw new Error('it has another format');
  const metadata = memberAt(content, 'metadata');
  const asOf = new Date(String(memberAt(content, 'asOf')));
  if (Number.isNaN(asOf.getTime())) throw new Error('it does not say of when it is');
  const configuration = memberAt(content, 'configuration');
  if (!isRecord(configuration)) throw new Error('it has no configuration');
  const named = Object.fromEntries(identity.map((member) => [member, nameAt(metadata, member)]));
  const annotations = Object.fromEntries(readAnnotations.flatMap((key) => entryOf(metadata, key)));
  const kubevirt: KubeVirt = {
    apiVersion: 'kubevirt.io/v1',
    kind: 'KubeVirt',
    metadata: { ...(named as Record<Identity, string>), annotations },
    spec: { configuration },
    status: { phase: 'Deployed' },
  };
  return { kubevirt, asOf };
}

function nameAt(metadata: unknown, member: Identity): string {
  const value = memberAt(metadata, member);
  if (!isName(value)) throw new Error(`its metadata has no usable ${member}`);
  return value;
}

function entryOf(metadata: unknown, key: string): [string, string][] {
  const value = memberAt(metadata, 'annotations', key);
  return typeof value === 'string' ? [[key, value]] : [];
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= maxNameLength;
}
