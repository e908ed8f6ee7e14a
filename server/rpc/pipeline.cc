#include "server/rpc/pipeline.h"

#include <utility>

namespace holdfast::rpc {

PipelineStream::PipelineStream(PipelineHandler* handler, PipelineSet* set)
    : handler_(handler),
      set_(set),
      waiting_(std::make_unique<Buffer<v1::PipelineResponse>>()),
      sent_(std::make_unique<Buffer<v1::PipelineResponse>>()) {
  StartRead(request_.get());
}

void PipelineStream::OnReadDone(bool ok) {
  {
    absl::MutexLock lock(&mu_);
    read_over_ = read_over_ || !ok;
    // What arrives after the end was announced is not carried out: its caller is told that the stream broke.
    if (!ok || finished_) return FinishIfOver();
    handling_ = true;
  }
  handler_->Answer(*request_.get(), waiting_->get());
  request_.Renew();
  absl::MutexLock lock(&mu_);
  handling_ = false;
  has_waiting_ = true;
  if (!writing_) SendWaiting();
  FinishIfOver();
}

void PipelineStream::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mu_);
  writing_ = false;
  broken_ = broken_ || !ok;
  sent_->Renew();
  if (has_waiting_ && !broken_) SendWaiting();
  FinishIfOver();
}

void PipelineStream::SendWaiting() {
  std::swap(waiting_, sent_);
  has_waiting_ = false;
  writing_ = true;
  StartWrite(sent_->get());
  if (!closing_) StartRead(request_.get());
}

void PipelineStream::FinishIfOver() {
  const bool over = read_over_ || closing_ || broken_;
  if (!over || finished_ || handling_ || writing_ || (has_waiting_ && !broken_)) return;
  finished_ = true;
  Finish(read_over_ ? grpc::Status::OK
                    : grpc::Status(grpc::StatusCode::UNAVAILABLE, "the master stops"));
}

void PipelineStream::Close() {
  absl::MutexLock lock(&mu_);
  closing_ = true;
  FinishIfOver();
}

void PipelineStream::OnDone() {
  set_->Remove(this);
  delete this;
}

PipelineStream* PipelineSet::Open() {
  auto* stream = new PipelineStream(handler_, this);
  absl::MutexLock lock(&mu_);
  streams_.insert(stream);
  if (closed_) stream->Close();
  return stream;
}

void PipelineSet::Close() {
  absl::MutexLock lock(&mu_);
  closed_ = true;
  for (PipelineStream* stream : streams_) stream->Close();
}

void PipelineSet::Remove(PipelineStream* stream) {
  absl::MutexLock lock(&mu_);
  streams_.erase(stream);
}

}  // namespace holdfast::rpc
