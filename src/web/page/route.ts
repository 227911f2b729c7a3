/** What the page shows, as the part of its address after `#`. */
export type Route =
  | { readonly view: 'list' }
  | { readonly view: 'agent' }
  | { readonly view: 'vm'; readonly tab: VmTab; readonly namespace: string; readonly name: string };

export type VmTab = (typeof vmTabs)[number];
export const vmTabs = ['overview', 'console', 'screen', 'why'] as const;

/** Total: what is no address of this page is the list. */
export function parseRoute(hash: string): Route {
  const [first, namespace, name, last, ...more] = partsOf(hash);
  if (first === 'agent' && namespace === undefined) return { view: 'agent' };
  const tab = last === undefined ? 'overview' : vmTabs.find((known) => known === last);
  const isVm = first === 'vm' && namespace !== undefined && name !== undefined && more.length === 0;
  return isVm && tab ? { view: 'vm', tab, namespace, name } : { view: 'list' };
}

export function vmHref({ namespace, name }: { readonly namespace: string; readonly name: string }, tab: VmTab): string {
  const path = `#/vm/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  return tab === 'overview' ? path : `${path}/${tab}`;
}

function partsOf(hash: string): (string | undefined)[] {
  try {
    return hash
      .replace(/^#?\/?/, '')
      .split('/')
      .filter(Boolean)
      .map(decodeURIComponent);
  } catch {
    return [];
  }
}
