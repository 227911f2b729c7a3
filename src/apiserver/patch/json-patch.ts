import { applyPatch, type Operation } from 'rfc6902';
import { errorMessage } from '../../base/index.ts';
import { ApiError, badRequest } from '../errors.ts';
import { clone, isObject } from '../object.ts';

const maxOperations = 10_000;
const operations = ['add', 'remove', 'replace', 'move', 'copy', 'test'];

/**
 * JSON Patch (RFC 6902), all or nothing. Throws ApiError BAD_REQUEST for what is no patch, INVALID when it does not apply.
 */
export function applyJsonPatch(target: unknown, patch: unknown): unknown {
  const checked = checkOperations(patch);
  const result = { root: clone(target) };
  for (const [index, operation] of checked.entries()) {
    const moved = { ...operation, path: `/root${operation.path}` };
    if ('from' in moved) moved.from = `/root${moved.from}`;
    const failure = applyOne(result, moved);
    if (failure) {
      const text = `the server rejected our request due to an error in our request: operation ${index}: ${failure}`;
      throw new ApiError('INVALID', text);
    }
  }
  return result.root;
}

function applyOne(root: object, operation: Operation): string | undefined {
  try {
    const [error] = applyPatch(root, [clone(operation)]);
    return error ? describe(operation, error) : undefined;
  } catch (error) {
    return errorMessage(error);
  }
}

function describe(operation: Operation, error: Error): string {
  const path = operation.path.slice('/root'.length);
  if (error.name === 'TestError') return `test of "${path}" failed`;
  if (error.name === 'MissingError') return `there is nothing at "${path}"`;
  return `"${operation.op}" at "${path}": ${error.message}`;
}

function checkOperations(patch: unknown): Operation[] {
  if (!Array.isArray(patch)) throw badRequest('a JSON patch is a list of operations');
  if (patch.length > maxOperations) {
    throw new ApiError(
      'TOO_LARGE',
      `The allowed maximum operations in a JSON patch is ${maxOperations}, got ${patch.length}`,
    );
  }
  for (const [index, operation] of patch.entries()) checkOperation(index, operation);
  return patch as Operation[];
}

function checkOperation(index: number, operation: unknown): void {
  const refuse = (why: string) => badRequest(`JSON patch operation ${index}: ${why}`);
  if (!isObject(operation)) throw refuse('it is no object');
  const { op, path, from } = operation;
  if (typeof op !== 'string' || !operations.includes(op)) throw refuse(`op must be one of ${operations.join(', ')}`);
  if (!isPointer(path)) throw refuse('path must be a JSON pointer: empty, or beginning with /');
  if ((op === 'move' || op === 'copy') && !isPointer(from)) throw refuse('from must be a JSON pointer');
  if (['add', 'replace', 'test'].includes(op) && !Object.hasOwn(operation, 'value')) throw refuse('value is missing');
}

/** The library steps over these names without a word; better to say no. */
const unsafeNames = new Set(['__proto__', 'constructor', 'prototype']);

function isPointer(path: unknown): path is string {
  if (typeof path !== 'string' || (path !== '' && !path.startsWith('/'))) return false;
  return !path.split('/').some((token) => unsafeNames.has(token));
}
