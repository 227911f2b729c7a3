import { checkAccess } from '../access.ts';
import { type FieldError, forbiddenField, invalidField, invalidOptions, requiredField } from '../errors.ts';
import type { WriteOptions, Written } from '../objects/index.ts';
import type { ApiContext, ResourceCall } from './api-context.ts';
import { mediaType, parseJson, parseYaml, textOf } from './body.ts';
import { isTrue, type ResourcePath, targetOf } from './request.ts';

export const applyPatch = 'application/apply-patch+yaml';
const longestManager = 128;

export function isApply({ contentType }: Pick<ResourceCall, 'contentType'>): boolean {
  return mediaType(contentType) === applyPatch;
}

/** The manager of what a request writes: its own word, or the program that sent it. Throws ApiError INVALID. */
export function managerOf({ query, userAgent }: ResourceCall, options: Parameters<typeof invalidOptions>[0]): string {
  const { fieldManager = '' } = query;
  const problem = managerProblem(fieldManager);
  if (problem) throw invalidOptions(options, problem);
  return fieldManager || (userAgent ?? '').split('/', 1)[0]?.slice(0, longestManager) || 'unknown';
}

function managerProblem(manager: string): FieldError | undefined {
  if (manager.length > longestManager) {
    const message = `Too long: may not be more than ${longestManager} bytes`;
    return { field: 'fieldManager', reason: 'FieldValueTooLong', message };
  }
  if (!/\p{C}/u.test(manager)) return undefined;
  return invalidField('fieldManager', manager, 'should only contain printable characters');
}

/** Throws ApiError INVALID. */
export function checkNoForce({ query }: ResourceCall): void {
  if (query.force === undefined) return;
  throw invalidOptions('PatchOptions', forbiddenField('force', 'may not be specified for non-apply patch'));
}

/** Server-side apply. Throws ApiError. */
export function applyObject(
  { writer }: ApiContext,
  path: ResourcePath,
  call: ResourceCall,
  options: WriteOptions,
): Promise<Written> {
  if (!call.query.fieldManager) {
    throw invalidOptions('PatchOptions', requiredField('fieldManager', 'is required for apply patch'));
  }
  const target = {
    ...targetOf(path),
    subresource: path.subresource === 'status' ? ('status' as const) : undefined,
    force: call.query.force !== undefined && isTrue(call.query.force),
    checkCreate: () => checkCreate(path, call),
  };
  return writer.apply(path.type, target, configOf(call), options);
}

function checkCreate({ type, subresource, namespace, name }: ResourcePath, { user }: ResourceCall): void {
  const { group, resource } = type;
  checkAccess(user, { verb: 'create', group, resource, subresource }, { namespace, name });
}

/** JSON is YAML, too, and read a hundred times faster. */
function configOf({ body }: ResourceCall): unknown {
  const text = textOf(body);
  try {
    return parseJson(text);
  } catch {
    return parseYaml(text);
  }
}
