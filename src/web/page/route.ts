/** What the page shows, as the part of its address after `#`. */
export type PageRoute =
  | { readonly view: 'list' }
  | { readonly view: 'images' | 'types' }
  | NewRoute
  | AgentRoute
  | VmRoute;

export interface AgentRoute {
  readonly view: 'agent';
  /** Absent: the only one, or the first. */
  readonly node?: string;
}

/** A VM that is being made. */
export interface NewRoute {
  readonly view: 'new';
  /** What it is a clone of. */
  readonly from?: { readonly namespace: string; readonly name: string };
}

export interface VmRoute {
  readonly view: 'vm';
  readonly tab: VmTab;
  readonly namespace: string;
  readonly name: string;
}

export type VmTab = (typeof vmTabs)[number];
export const vmTabs = [
  'overview',
  'console',
  'screen',
  'devices',
  'snapshots',
  'events',
  'logs',
  'yaml',
  'timeline',
  'why',
] as const;

export const vmTabLabels: Readonly<Record<VmTab, string>> = {
  overview: 'Overview',
  console: 'Console',
  screen: 'Screen',
  devices: 'Devices',
  snapshots: 'Snapshots',
  events: 'Events',
  logs: 'Logs',
  yaml: 'YAML',
  timeline: 'Start-up',
  why: 'Why',
};

/** Of the window; the heading of the view says the same. */
export function titleOf(route: PageRoute): string {
  switch (route.view) {
    case 'list':
      return 'Virtual machines';
    case 'images':
      return 'Images';
    case 'types':
      return 'Instance types';
    case 'new':
      return route.from ? `Clone of ${route.from.name}` : 'New virtual machine';
    case 'agent':
      return route.node === undefined ? 'Agent' : `Agent of ${route.node}`;
    case 'vm':
      return `${route.name}: ${vmTabLabels[route.tab]}`;
  }
}

/** Total: what is no address of this page is the list. */
export function parseRoute(hash: string): PageRoute {
  const [first, namespace, name, last, ...more] = partsOf(hash);
  if (first === 'agent' && name === undefined) {
    return { view: 'agent', ...(namespace !== undefined && { node: namespace }) };
  }
  if ((first === 'images' || first === 'types') && namespace === undefined) return { view: first };
  if (first === 'new' && last === undefined && (namespace === undefined) === (name === undefined)) {
    return { view: 'new', ...(namespace !== undefined && name !== undefined && { from: { namespace, name } }) };
  }
  const tab = last === undefined ? 'overview' : vmTabs.find((known) => known === last);
  const isVm = first === 'vm' && namespace !== undefined && name !== undefined && more.length === 0;
  return isVm && tab ? { view: 'vm', tab, namespace, name } : { view: 'list' };
}

export function cloneHref({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return `#/new/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}

export function agentHref(node: string): string {
  return `#/agent/${encodeURIComponent(node)}`;
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
