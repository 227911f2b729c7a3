import { CodedError } from '../base/index.ts';

/** The page cannot be served; the message says what to do. */
export class WebError extends CodedError<'PAGE_MISSING'> {}
