import { ApiError, qualified } from './errors.ts';

/** A rule as one of a ClusterRole. `*` stands for everything. */
export interface AccessRule {
  /** As a RoleBinding's: in these alone, and nothing at the cluster scope. Absent: everywhere. */
  readonly namespaces?: readonly string[];
  /** In all namespaces but these, each by its name: not in a question about all at once, in which these would be. */
  readonly exceptNamespaces?: readonly string[];
  /** Empty text is the core group. */
  readonly apiGroups: readonly string[];
  /** `pods`, `pods/log`, `*`, or `*` followed by `/` and a sub-resource. */
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

export interface ApiToken {
  /** The bearer token itself; at least 16 characters. */
  readonly token: string;
  /** User name, as `kubectl auth whoami` shows it. */
  readonly user: string;
  /** `system:authenticated` is always added. */
  readonly groups?: readonly string[];
  /** All that the token may do, as a ClusterRole says it; undefined: everything. */
  readonly rules?: readonly AccessRule[];
}

/** A user besides those of the start, whose token nobody but the user has. */
export interface UserAccount {
  readonly user: string;
  /** SHA-256 of the bearer token, as 64 hexadecimal digits. */
  readonly digest: string;
  /** All that the user may do. */
  readonly rules: readonly AccessRule[];
  /** Milliseconds since the epoch, from which on the token is worth nothing. */
  readonly expiresAtMs?: number;
}

export interface User {
  readonly name: string;
  readonly groups: readonly string[];
  /** All that the user may do; undefined: everything. */
  readonly rules?: readonly AccessRule[];
}

/** One question about rights. */
export interface AccessRequest {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource: string | undefined;
  /** Absent or empty: all of them, or the cluster scope. */
  readonly namespace?: string | undefined;
}

/** What every user with a token may do, as `system:basic-user` of Kubernetes: ask about itself. */
const selfRules: readonly AccessRule[] = [
  {
    apiGroups: ['authorization.k8s.io'],
    resources: ['selfsubjectaccessreviews', 'selfsubjectrulesreviews'],
    verbs: ['create'],
  },
  { apiGroups: ['authentication.k8s.io'], resources: ['selfsubjectreviews'], verbs: ['create'] },
];

/** As `system:discovery` of Kubernetes; the server has no other paths besides resources. */
export const openPaths: readonly string[] = [
  ...['/', '/api', '/api/*', '/apis', '/apis/*', '/healthz', '/livez', '/readyz', '/openapi/*', '/version'],
];

const everything: readonly AccessRule[] = [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }];

/** All rules of a user that hold in this namespace, or at the cluster scope; whose token came without rules may do everything. */
export function rulesOf({ rules }: User, namespace: string | undefined): readonly AccessRule[] {
  if (rules === undefined) return everything;
  return [...selfRules, ...rules.filter((rule) => holdsIn(rule, namespace ?? ''))];
}

function holdsIn({ namespaces, exceptNamespaces }: AccessRule, namespace: string): boolean {
  if (namespaces && !namespaces.includes(namespace)) return false;
  return !exceptNamespaces || (namespace !== '' && !exceptNamespaces.includes(namespace));
}

export function isAllowed(user: User, request: AccessRequest): boolean {
  const { verb, group, resource, subresource, namespace } = request;
  const wanted = subresource === undefined ? [resource] : [`${resource}/${subresource}`, `*/${subresource}`];
  return rulesOf(user, namespace).some(
    ({ apiGroups, resources, verbs }) =>
      names(apiGroups, [group]) && names(resources, wanted) && names(verbs, [verb.toLowerCase()]),
  );
}

/** Of paths that are no resources; reading the open ones is all there is. */
export function isPathAllowed({ rules }: User, path: string, verb: string): boolean {
  if (rules === undefined) return true;
  if (verb.toLowerCase() !== 'get' && verb.toLowerCase() !== 'head') return false;
  return openPaths.some((open) => (open.endsWith('/*') ? path.startsWith(open.slice(0, -1)) : path === open));
}

function names(list: readonly string[], wanted: readonly string[]): boolean {
  return list.includes('*') || wanted.some((item) => list.includes(item));
}

export interface AccessTarget {
  readonly namespace: string | undefined;
  readonly name: string | undefined;
}

/** Throws ApiError FORBIDDEN in the words of Kubernetes. A Namespace is in itself, so that who has one may look at it. */
export function checkAccess(user: User, request: AccessRequest, target: AccessTarget): void {
  const { verb, group, resource, subresource } = request;
  const { name } = target;
  const namespace = group === '' && resource === 'namespaces' ? name : target.namespace;
  if (isAllowed(user, { verb, group, resource, subresource, namespace })) return;
  const whole = subresource === undefined ? resource : `${resource}/${subresource}`;
  const where = namespace === undefined ? 'at the cluster scope' : `in the namespace "${namespace}"`;
  const what = `${qualified({ group, resource, kind: '' })}${name === undefined ? '' : ` "${name}"`}`;
  const text = `${what} is forbidden: User "${user.name}" cannot ${verb} resource "${whole}" in API group "${group}" ${where}`;
  const details = { ...(name === undefined ? {} : { name }), ...(group === '' ? {} : { group }), kind: resource };
  throw new ApiError('FORBIDDEN', text, { details });
}
