import { badRequest } from '../errors.ts';
import { isObject, type JsonObject, textAt } from '../object.ts';
import type { User } from '../objects/context.ts';
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

const rule = { verbs: ['*'], apiGroups: ['*'], resources: ['*'] };
const nonResourceRule = { verbs: ['*'], nonResourceURLs: ['*'] };

/**
 * Answers a question about rights or identity. Who has a token may do everything here, so the answer about rights is yes.
 * undefined when there is no such question.
 */
export function answerReview(
  { group, resource }: { readonly group: string; readonly resource: string },
  body: unknown,
  user: User,
  tokens: TokenAuthenticator,
): JsonObject | undefined {
  const review = reviewResources(group).find((item) => item.resource === resource);
  if (!review) return undefined;
  if (!isObject(body)) throw badRequest('the body must be one object');
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
      return { incomplete: false, resourceRules: [rule], nonResourceRules: [nonResourceRule] };
    case 'selfsubjectreviews':
      return { userInfo: userInfo(user) };
    case 'tokenreviews': {
      const known = tokens.userOf(textAt(body, 'spec', 'token') ?? '');
      return known ? { authenticated: true, user: userInfo(known) } : { authenticated: false, error: 'unknown token' };
    }
    default:
      return { allowed: true, reason: 'every token of this server may do everything' };
  }
}

function userInfo(user: User): JsonObject {
  return { username: user.name, groups: user.groups };
}
