#pragma once

namespace warpconv {

/** An item that can be in one chain at a time. */
template <typename Item>
class Linked {
 public:
  Item* next() const { return next_; }

 private:
  template <typename>
  friend class Chain;
  Item* next_ = nullptr;
};

/** Items in a row, linked through themselves, so that joining takes no memory and cannot fail. Owns none of them. */
template <typename Item>
class Chain {
 public:
  bool isEmpty() const { return first_ == nullptr; }
  Item* first() const { return first_; }

  void append(Item& item) {
    Item** place = &first_;
    if (last_ != nullptr) place = &last_->next_;
    *place = last_ = &item;
  }
  void prepend(Item& item) {
    item.next_ = first_;
    first_ = &item;
    if (last_ == nullptr) last_ = &item;
  }
  /** One that is in this chain. */
  void remove(Item& item) {
    Item* before = nullptr;
    Item** place = &first_;
    for (; *place != &item; place = &before->next_) before = *place;
    *place = item.next_;
    if (last_ == &item) last_ = before;
    item.next_ = nullptr;
  }

 private:
  Item* first_ = nullptr;
  Item* last_ = nullptr;
};

}  // namespace warpconv
