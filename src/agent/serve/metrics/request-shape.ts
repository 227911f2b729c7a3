export interface RequestShape {
  /** The path with `{namespace}` and `{name}` in the places of names. */
  readonly url: string;
  /** Plural, with its subresource: `nodes/status`. Undefined: not about objects. */
  readonly resource: string | undefined;
  /** About one object by name. */
  readonly isOne: boolean;
}

/** `/api/v1/…` and `/apis/<group>/<version>/…`; of anything else nothing is kept but its first part. */
export function requestShape(path: string): RequestShape {
  const [first = '', ...rest] = path.split('/').filter((part) => part !== '');
  const rootLength = first === 'api' ? 1 : first === 'apis' ? 2 : undefined;
  if (rootLength === undefined || rest.length <= rootLength)
    return { url: `/${first}`, resource: undefined, isOne: false };
  const root = `/${[first, ...rest.slice(0, rootLength)].join('/')}`;
  const parts = rest.slice(rootLength);
  const isNamespaced = parts[0] === 'namespaces' && parts.length > 2;
  const [resource = '', name, subresource] = isNamespaced ? parts.slice(2) : parts;
  const url = [
    root,
    ...(isNamespaced ? ['namespaces', '{namespace}'] : []),
    resource,
    ...(name === undefined ? [] : ['{name}']),
    ...(subresource === undefined ? [] : [subresource]),
  ].join('/');
  const whole = subresource === undefined ? resource : `${resource}/${subresource}`;
  return { url, resource: whole, isOne: name !== undefined };
}
