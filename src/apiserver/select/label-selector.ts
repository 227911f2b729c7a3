import { LabelQueryError, labelMatcher, parseLabelQuery } from '../../api/index.ts';
import { badRequest } from '../errors.ts';

/** Whether an object with these labels is meant; no selector means all. Throws ApiError BAD_REQUEST. */
export function parseLabelSelector(text: string | undefined) {
  try {
    return labelMatcher(parseLabelQuery(text ?? ''));
  } catch (error) {
    throw error instanceof LabelQueryError ? badRequest(error.message, error) : error;
  }
}
