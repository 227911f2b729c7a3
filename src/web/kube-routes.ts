const label = '[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?';
const name = `${label}(?:\\.${label}){0,8}`;
const kubevirt = `/apis/kubevirt\\.io/v1/namespaces/${label}`;
const core = `/api/v1/namespaces/${label}`;
const snapshots = `/apis/snapshot\\.kubevirt\\.io/v1beta1/namespaces/${label}/virtualmachine`;
const clones = `/apis/clone\\.kubevirt\\.io/v1beta1/namespaces/${label}/virtualmachineclones`;
const pools = `/apis/pool\\.kubevirt\\.io/v1beta1/namespaces/${label}/virtualmachinepools`;
/** Of all namespaces. */
const sets =
  '/apis/(?:pool\\.kubevirt\\.io/v1beta1/virtualmachinepools|kubevirt\\.io/v1/virtualmachineinstancereplicasets)';
const types = `/apis/instancetype\\.kubevirt\\.io/v1beta1/(?:namespaces/${label}/)?virtualmachine(?:cluster)?`;

/** What the page asks the Kubernetes API for, by method, and no more: VMs, what they are made of, what is known of them, their snapshots, and how many there are of them. */
const routes: Readonly<Record<string, readonly RegExp[]>> = {
  GET: [
    new RegExp(`^${kubevirt}/(?:virtualmachines|virtualmachineinstances)/${name}$`),
    new RegExp(`^${core}/(?:events|persistentvolumeclaims|pods(?:/${name}/log)?)$`),
    new RegExp(`^${types}(?:instancetypes|preferences)$`),
    new RegExp(`^(?:${snapshots}(?:snapshots|snapshotcontents|restores)|${clones}|${sets})$`),
    /^\/api\/v1\/namespaces$/,
  ],
  POST: [
    new RegExp(`^${kubevirt}/virtualmachines$`),
    new RegExp(`^${core}/persistentvolumeclaims$`),
    new RegExp(`^(?:${snapshots}(?:snapshots|restores)|${clones})$`),
  ],
  PUT: [
    new RegExp(`^${kubevirt}/virtualmachines/${name}$`),
    new RegExp(`^(?:${kubevirt}/virtualmachineinstancereplicasets|${pools})/${name}/scale$`),
  ],
  DELETE: [
    new RegExp(`^${kubevirt}/(?:virtualmachines|virtualmachineinstances)/${name}$`),
    new RegExp(`^(?:${snapshots}(?:snapshots|restores)|${clones})/${name}$`),
  ],
};

/** No `watch` and no `follow`: an answer ends. */
const parameters: ReadonlySet<string> = new Set([
  ...['labelSelector', 'fieldSelector', 'dryRun', 'fieldValidation'],
  ...['container', 'tailLines', 'limitBytes'],
]);

/** A request of the page that may go on to the Kubernetes API. `target`: path and query. */
export function isKubeRequest(method: string, target: string): boolean {
  const [path = '', query = '', ...more] = target.split('?');
  if (more.length > 0 || !Object.hasOwn(routes, method)) return false;
  const isKnown = routes[method]?.some((route) => route.test(path)) === true;
  return isKnown && [...new URLSearchParams(query).keys()].every((key) => parameters.has(key));
}
