/** Labels of letters, digits and inner dashes; service labels begin with an underscore. */
const label = /^[_a-z0-9]([_a-z0-9-]{0,61}[a-z0-9])?$/;
const maxName = 253;
/** Two options full. Far more than resolvers use, and a reply stays below every MTU. */
const maxBytes = 510;

export interface DomainSearch {
  /** Option 119 (RFC 3397), without compression. Empty when no name is left. */
  readonly bytes: Buffer;
  /** What no client could use, or what there was no room for. */
  readonly leftOut: readonly string[];
}

/** One name that is none in a pod's resolv.conf must not cost the guest its network: upstream's launcher panics there. */
export function encodeDomainSearch(domains: readonly string[]): DomainSearch {
  const leftOut: string[] = [];
  let bytes = Buffer.alloc(0);
  for (const domain of domains) {
    const name = encodeName(domain);
    if (name && bytes.length + name.length <= maxBytes) bytes = Buffer.concat([bytes, name]);
    else leftOut.push(domain);
  }
  return { bytes, leftOut };
}

/** RFC 1035 §3.1; undefined when the text is no domain name. */
function encodeName(domain: string): Buffer | undefined {
  const name = domain.endsWith('.') ? domain.slice(0, -1) : domain;
  const labels = name.split('.');
  if (name.length > maxName || !labels.every((each) => label.test(each))) return undefined;
  return Buffer.concat([...labels.map((each) => Buffer.from([each.length, ...Buffer.from(each)])), Buffer.from([0])]);
}
