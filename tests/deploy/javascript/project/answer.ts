/** What the page leaves for the test. */
export interface Answer {
  page: number[];
  worker: number[];
  error: number;
}
declare global {
  var answer: Answer | string | undefined;
}
