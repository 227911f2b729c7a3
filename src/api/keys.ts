import type { KubeObject } from './kubernetes.ts';

/** `namespace/name`: identity of a VMI and of its domain on this node. */
export type Key = string;

export function keyOf(object: Pick<KubeObject, 'metadata'>): Key {
  const { namespace, name } = object.metadata;
  return namespace ? `${namespace}/${name}` : name;
}

export function makeKey(namespace: string, name: string): Key {
  return `${namespace}/${name}`;
}

/** Splits a key; undefined when it is not exactly `namespace/name`. */
export function parseKey(key: Key): { namespace: string; name: string } | undefined {
  const [namespace, name, ...rest] = key.split('/');
  return namespace && name && rest.length === 0 ? { namespace, name } : undefined;
}

/** libvirt's name of the domain of a VMI. */
export function domainName(namespace: string, name: string): string {
  return `${namespace}_${name}`;
}

/** The reverse: split at the first `_`; without one the namespace is `default`, as upstream's agent reads it. */
export function parseDomainName(domain: string): { namespace: string; name: string } {
  const at = domain.indexOf('_');
  if (at < 0) return { namespace: 'default', name: domain };
  return { namespace: domain.slice(0, at), name: domain.slice(at + 1) };
}
