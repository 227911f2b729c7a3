import { isRecord } from '../../base/index.ts';
import type { User } from '../access.ts';
import { isAllowed, isPathAllowed, openPaths, rulesOf } from '../access.ts';
import { ApiError, badRequest } from '../errors.ts';
import { at, type JsonObject, stringAt } from '../object.ts';
import type { TokenAuthenticator } from './auth.ts';

interface Review {
  readonly resource: string;
  readonly kind: string;
  readonly namespaced: boolean;
}

const authorization: readonly Review[] = [
  { resource: 'selfsubjectaccessreviews', kind: 'SelfSubjectAccessReview', namespaced: false },
  { resource: 'selfsubjectrulesreviews', kind: 'SelfSubjectRulesReview', namespaced: false },
  { resource: 'subjectaccessreviews', kind: 'SubjectAccessReview', namespaced: false },
  { resource: 'localsubjectaccessreviews', kind: 'LocalSubjectAccessReview', namespaced: true },
];

const authentication: readonly Review[] = [
  { resource: 'selfsubjectreviews', kind: 'SelfSubjectReview', namespaced: false },
  { resource: 'tokenreviews', kind: 'TokenReview', namespaced: false },
];

export function reviewResources(group: string): readonly Review[] {
  if (group === 'authorization.k8s.io') return authorization;
  return group === 'authentication.k8s.io' ? authentication : [];
}

export function isReview({ group, resource }: { readonly group: string; readonly resource: string }): boolean {
  return reviewResources(group).some((item) => item.resource === resource);
}

/** Answers a question about rights or identity. undefined when there is no such question. */
export function answerReview(
  { group, resource }: { readonly group: string; readonly resource: string },
  body: unknown,
  user: User,
  tokens: TokenAuthenticator,
): JsonObject | undefined {
  const review = reviewResources(group).find((item) => item.resource === resource);
  if (!review) return undefined;
  if (!isRecord(body)) throw badRequest('the body must be one object');
  const kind = body.kind ?? review.kind;
  if (kind !== review.kind)
    throw badRequest(`the kind in the data (${kind}) does not match the expected kind (${review.kind})`);
  const head = { apiVersion: `${group}/v1`, kind: review.kind, metadata: { creationTimestamp: null } };
  return {
    ...head,
    ...(body.spec === undefined ? {} : { spec: body.spec }),
    status: statusOf(resource, body, user, tokens),
  };
}

function statusOf(resource: string, body: JsonObject, user: User, tokens: TokenAuthenticator): JsonObject {
  switch (resource) {
    case 'selfsubjectrulesreviews':
      return rulesReview(user, stringAt(body, 'spec', 'namespace'));
    case 'selfsubjectreviews':
      return { userInfo: userInfo(user) };
    case 'tokenreviews': {
      const known = tokens.userOf(stringAt(body, 'spec', 'token') ?? '');
      return known ? { authenticated: true, user: userInfo(known) } : { authenticated: false, error: 'unknown token' };
    }
    case 'selfsubjectaccessreviews':
      return accessReview(user, body);
    case 'subjectaccessreviews':
    case 'localsubjectaccessreviews':
      return reviewOfOther(body, tokens);
    default:
      throw new ApiError('NOT_FOUND', `there is no review ${resource}`);
  }
}

function rulesReview(user: User, namespace: string | undefined): JsonObject {
  const paths = user.rules === undefined ? ['*'] : openPaths;
  return {
    incomplete: false,
    resourceRules: rulesOf(user, namespace).map(({ apiGroups, resources, verbs }) => ({ apiGroups, resources, verbs })),
    nonResourceRules: [{ verbs: user.rules === undefined ? ['*'] : ['get', 'head'], nonResourceURLs: paths }],
  };
}

function reviewOfOther(body: JsonObject, tokens: TokenAuthenticator): JsonObject {
  const groups = at(body, 'spec', 'groups');
  const name = stringAt(body, 'spec', 'user') ?? '';
  const known = tokens.userNamed(name);
  if (known) return accessReview(known, body);
  if (Array.isArray(groups) && groups.includes('system:masters')) return accessReview({ name, groups }, body);
  return { allowed: false, reason: `no token of this server belongs to user ${JSON.stringify(name)}` };
}

/** Throws ApiError BAD_REQUEST when the question names neither a resource nor a path. */
function accessReview(user: User, body: JsonObject): JsonObject {
  const resource = at(body, 'spec', 'resourceAttributes');
  const path = at(body, 'spec', 'nonResourceAttributes');
  if (isRecord(resource) === isRecord(path)) {
    throw badRequest('spec must have exactly one of resourceAttributes, nonResourceAttributes');
  }
  const text = (name: string) => stringAt(resource ?? path, name) ?? '';
  const allowed = isRecord(resource)
    ? isAllowed(user, {
        verb: text('verb'),
        group: text('group'),
        resource: text('resource'),
        subresource: text('subresource') || undefined,
        namespace: text('namespace') || undefined,
      })
    : isPathAllowed(user, text('path'), text('verb'));
  if (user.rules === undefined) return { allowed, reason: `${user.name} may do everything on this server` };
  return { allowed, reason: allowed ? 'a rule of the token says so' : 'no rule of the token says so' };
}

function userInfo(user: User): JsonObject {
  return { username: user.name, groups: user.groups };
}
