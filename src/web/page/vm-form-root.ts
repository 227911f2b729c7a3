import { type Fields, fieldsOf, listOfFields, textOf } from './json-fields.ts';

/** Sources of a root disk that is filled once, by a DataVolume of the VM, and kept. */
export const keptSources = ['copy', 'address', 'clone'] as const;

/** The part of the form that says what such a disk begins with. */
export interface KeptRoot {
  readonly source: (typeof keptSources)[number];
  /** Of `copy`: an image of the node. */
  readonly image: string;
  /** Of `address`. */
  readonly url: string;
  /** Of `clone`: a claim of the same namespace. */
  readonly claim: string;
  /** A Kubernetes quantity; empty for a clone: as large as that. */
  readonly rootSize: string;
}

/** Of the DataVolume, and of its claim: of one machine only. */
export const ownRootOf = (name: string) => `${name}-root`;

export const usualRootSize = '10Gi';

export function isKept(source: string): source is KeptRoot['source'] {
  return keptSources.some((each) => each === source);
}

/** What the template of a VM's root disk says, where the form has it; undefined: the disk is no such one. */
export function keptRootOf(templates: unknown, root: Fields | undefined): KeptRoot | undefined {
  const name = textOf(fieldsOf(root?.dataVolume).name);
  const spec = fieldsOf(listOfFields(templates).find((each) => nameOf(each) === name)?.spec);
  const source = fieldsOf(spec.source);
  const [image, url, claim] = [
    textOf(fieldsOf(source.registry).url).replace(/^docker:\/\//, ''),
    textOf(fieldsOf(source.http).url),
    textOf(fieldsOf(source.pvc).name),
  ];
  const rootSize = textOf(fieldsOf(fieldsOf(fieldsOf(spec.storage).resources).requests).storage);
  const kind = source.registry ? 'copy' : source.http ? 'address' : source.pvc ? 'clone' : undefined;
  return kind && { source: kind, image, url, claim, rootSize };
}

/** The templates with this root disk in place of the one before; undefined: none is left. */
export function withRoot(
  templates: unknown,
  before: Fields | undefined,
  machine: { readonly name: string; readonly namespace: string },
  root: KeptRoot | undefined,
): readonly object[] | undefined {
  const old = textOf(fieldsOf(before?.dataVolume).name);
  const others = listOfFields(templates).filter((each) => old === '' || nameOf(each) !== old);
  const made = root ? [...others, templateOf(machine, root)] : others;
  return made.length === 0 ? undefined : made;
}

function nameOf({ metadata }: Fields): string {
  return textOf(fieldsOf(metadata).name);
}

function templateOf({ name, namespace }: { name: string; namespace: string }, root: KeptRoot): object {
  const sources = {
    copy: { registry: { url: `docker://${root.image}` } },
    address: { http: { url: root.url } },
    clone: { pvc: { namespace, name: root.claim } },
  };
  const resources = root.rootSize === '' ? {} : { resources: { requests: { storage: root.rootSize } } };
  return { metadata: { name: ownRootOf(name) }, spec: { source: sources[root.source], storage: resources } };
}
