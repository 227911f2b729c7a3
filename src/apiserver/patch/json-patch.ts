import { applyPatch, type Operation, Pointer } from 'rfc6902';
import { copyJson, errorMessage, isRecord, sameJson, shortened, whyUnsafe } from '../../base/index.ts';
import { ApiError, badRequest } from '../errors.ts';

const maxOperations = 10_000;
/** All that the `copy` operations of one patch may add, as JSON: the limit of a kube-apiserver (`JSONPatchMaxCopyBytes`). */
const maxCopiedBytes = 3 * 1024 * 1024;
/** Values that the `test` operations of one patch may look at: each is cheap, ten thousand tests of one long list are not. */
const maxComparedValues = 2_000_000;
/** As of a request's body: copies of a value into itself double its depth, too. */
const maxDepth = 256;
const operations = ['add', 'remove', 'replace', 'move', 'copy', 'test'];

/** What one patch has used of what it may. */
interface Spent {
  copiedBytes: number;
  readonly compared: CompareBudget;
}

/**
 * JSON Patch (RFC 6902), all or nothing. Throws ApiError BAD_REQUEST for what is no patch, TOO_LARGE for too many operations, INVALID
 * when it does not apply: copies and tests are bounded, and so is the depth of the result.
 */
export function applyJsonPatch(target: unknown, patch: unknown): unknown {
  const checked = checkOperations(patch);
  const result = { root: copyJson(target) };
  const spent: Spent = { copiedBytes: 0, compared: new CompareBudget(maxComparedValues) };
  for (const [index, operation] of checked.entries()) {
    const moved = { ...operation, path: `/root${operation.path}` };
    if ('from' in moved) moved.from = `/root${moved.from}`;
    const failure = applyOne(result, moved, spent);
    if (failure) throw refused(`operation ${index}: ${failure}`);
  }
  const unsafe = whyUnsafe(result.root, maxDepth);
  if (unsafe !== undefined) throw refused(unsafe);
  return result.root;
}

function refused(why: string): ApiError {
  return new ApiError('INVALID', `the server rejected our request due to an error in our request: ${why}`);
}

function applyOne(root: object, operation: Operation, spent: Spent): string | undefined {
  try {
    if (operation.op === 'test') return testOne(root, operation, spent.compared);
    if (operation.op === 'copy') countCopy(root, operation.from, spent);
    const [error] = applyPatch(root, [copyJson(operation)]);
    return error ? describe(operation, error) : undefined;
  } catch (error) {
    return shortened(errorMessage(error), maxShownLength);
  }
}

/** The library's own test makes the difference of both values, which takes the product of the lengths of two lists. */
function testOne(root: object, { path, value }: Operation & { op: 'test' }, budget: CompareBudget): string | undefined {
  const actual: unknown = Pointer.fromJSON(path).get(root);
  return budget.isSame(actual, value) ? undefined : `test of "${shownPath(path)}" failed`;
}

/** Throws when this copy is one too many. A value that is nested too deep to be written does not count: the copy fails, too. */
function countCopy(root: object, from: string, spent: Spent): void {
  const text: string | undefined = JSON.stringify(Pointer.fromJSON(from).get(root));
  spent.copiedBytes += Buffer.byteLength(text ?? '');
  if (spent.copiedBytes <= maxCopiedBytes) return;
  throw new Error(
    `Unable to complete the copy, the accumulated size increase of copy is ${spent.copiedBytes}, exceeding the limit ${maxCopiedBytes}`,
  );
}

const maxShownLength = 200;

function shownPath(path: string): string {
  return shortened(path.slice('/root'.length), maxShownLength);
}

function describe(operation: Operation, error: Error): string {
  const path = shownPath(operation.path);
  if (error.name === 'MissingError') return `there is nothing at "${path}"`;
  return `"${operation.op}" at "${path}": ${shortened(error.message, maxShownLength)}`;
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
  if (!isRecord(operation)) throw refuse('it is no object');
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

/** Compares JSON values as long as it has looked at no more than a number of them. */
export class CompareBudget {
  readonly #most: number;
  #left: number;

  constructor(most: number) {
    this.#most = most;
    this.#left = most;
  }

  /** Throws when the budget is used up. */
  isSame(a: unknown, b: unknown): boolean {
    return sameJson(a, b, (values) => this.#spend(values));
  }

  #spend(count: number): void {
    this.#left -= count;
    if (this.#left < 0) throw new Error(`the tests of one patch may look at ${this.#most} values at most`);
  }
}
