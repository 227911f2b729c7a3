const label = '[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?';
const name = `${label}(?:\\.${label}){0,8}`;
const within = (kind: string) => `namespaces/${label}/${kind}`;
const vms = `apis/kubevirt\\.io/v1/${within('virtualmachines')}`;
const vmis = `apis/kubevirt\\.io/v1/${within('virtualmachineinstances')}`;
const types = 'virtualmachine(?:cluster)?(?:instancetypes|preferences)';
const claims = `api/v1/${within('persistentvolumeclaims')}`;

/** What the page asks the Kubernetes API for, by method, and no more: VMs, what they are made of, what is known of them. */
const routes: Readonly<Record<string, readonly RegExp[]>> = {
  GET: patterns([
    `${vms}(?:/${name})?`,
    `${vmis}/${name}`,
    'api/v1/namespaces',
    `api/v1/${within('events')}`,
    `api/v1/${within('pods')}(?:/${name}/log)?`,
    claims,
    `apis/instancetype\\.kubevirt\\.io/v1beta1/(?:namespaces/${label}/)?${types}`,
  ]),
  POST: patterns([vms, claims]),
  PUT: patterns([`${vms}/${name}`]),
  DELETE: patterns([`${vms}/${name}`, `${vmis}/${name}`]),
};

function patterns(texts: readonly string[]): readonly RegExp[] {
  return texts.map((text) => new RegExp(`^/${text}$`));
}

/** No `watch` and no `follow`: an answer ends. */
const parameters: ReadonlySet<string> = new Set([
  ...['labelSelector', 'fieldSelector', 'limit', 'dryRun', 'fieldValidation', 'propagationPolicy'],
  ...['container', 'tailLines', 'limitBytes'],
]);

/** A request of the page that may go on to the Kubernetes API. `target`: path and query. */
export function isKubeRequest(method: string, target: string): boolean {
  const [path = '', query = '', ...more] = target.split('?');
  if (more.length > 0 || !Object.hasOwn(routes, method)) return false;
  const isKnown = routes[method]?.some((route) => route.test(path)) === true;
  return isKnown && [...new URLSearchParams(query).keys()].every((key) => parameters.has(key));
}
